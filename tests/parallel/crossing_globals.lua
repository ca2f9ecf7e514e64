-- Global tables that cross frozen with the functions that name them, and what many crossings keep.
local pl = require "perilune"
local function fails(what, f, ...)
  local ok, e = pcall(f, ...)
  print(what, ok and "NOT REFUSED" or (tostring(e):gsub("\n.*", "")))
end
for _, workers in ipairs { 1, 4 } do
  local pool = pl.pool.new { workers = workers }
  local function A(f, ...) return pool:async(f, ...):await() end

  it = { { n = 1 } }
  local t = pool:async(function() return it[1] end)
  it = nil
  collectgarbage()
  local r = t:await()
  r.n = 2
  print(r.n)
  P = {}
  P.__index = P
  print(getmetatable(A(function() return setmetatable({}, P) end)) == P)

  -- Functions that methods name.
  function clamp(x) return x + 1 end
  C = {}
  C.__index = C
  function C:m(x) return clamp(x) end
  print(A(function(o) return o:m(1) end, setmetatable({}, C)), A(function() return setmetatable({}, C):m(1) end))
  function clamp(x) return x + 10 end
  print(A(function(o) return o:m(1) end, setmetatable({}, C)), A(function() return setmetatable({}, C):m(1) end))

  -- Constants, dispatch tables, inheritance.
  Config = { width = 80, colours = { red = 1 } }
  ops = { add = function(a, b) return a + b end, sub = function(a, b) return a - b end }
  print(A(function(op) return Config.width, Config.colours.red, ops[op](3, 4) end, "add"))
  Base = {}
  Base.__index = Base
  function Base:name() return "base" end
  Derived = setmetatable({}, { __index = Base })
  Derived.__index = Derived
  print(A(function() local d = setmetatable({}, Derived) return d:name(), rawequal(getmetatable(d), Derived) end))
  Config.width = 100
  print(A(function() return Config.width end))
  Config = nil
  print(A(function() return Config end))

  -- Stores.
  log = {}
  fails("store", A, function() log[1] = 1 end)
  fails("field", A, function() log.x = 1 end)
  fails("insert", A, function() table.insert(log, 1) end)
  fails("alias", A, function() local l = log l[1] = 1 end)
  fails("a function", A, function() return remember(1) end)
  function remember(x) log[x] = x end
  fails("a function", A, function() return remember(1) end)
  fails("assignment", A, function() log = {} end)
  print(#log)
  local d = pl.domain.spawn(function()
    log2 = { 1 }
    log2[2] = 2
    local ok, e = pcall(function(l) l[1] = 1 end, log)
    return #log2, ok, (e:gsub("^.-: ", "", 1))
  end)
  print(d:join())
  print(pl.domain.spawn(function() log = { 5 } return log[1] end):join(), #log)
  pool:parallel_for(1, 3, function() assert(#log == 0) end)
  print(pool:parallel_reduce(1, 10, 0, function(i) return ops.add(i, 1) end, function(a, b) return ops.add(a, b) end))
  print(table.concat(pool:map({ 1, 2, 3 }, function(x) return ops.sub(x, 1) end), " "))
  function twice(x) return 2 * x end
  local n = 1
  function counted() return n end
  pool:parallel_for(1, 1, function() assert(counted() == 1) end)
  n = 2
  pool:parallel_for(1, 1, function() assert(counted() == 2) end)
  fails("counted", A, function() return counted() end)
  pool:close()
  it, P, C, Config, ops, Base, Derived, log, clamp, remember, twice, counted = nil
end

-- What crosses again and again is kept no longer than it is used.
do
  local pool = pl.pool.new { workers = 2 }
  local function big()
    local t = {}
    for i = 1, 50 do t[i] = { i } end
    return t
  end
  -- What other domains still refer to goes when each of them has collected: a task for each of several rounds.
  local function used()
    for _ = 1, 3 do
      collectgarbage()
      local tasks = {}
      for i = 1, 16 do tasks[i] = pool:async(collectgarbage) end
      for i = 1, 16 do tasks[i]:await() end
    end
    collectgarbage()
    return collectgarbage "count"
  end
  local before
  for round = 1, 4 do
    for _ = 1, 500 do
      pl.arena(function()
        local t = big()
        local r = pool:async(function(i) return t[i] end, 1):await()
        assert(r == t[1] and rawequal(r, t[1]))
        r[1] = "home"
        assert(t[1][1] == "home")
      end)
    end
    local j = { id = round }
    for _ = 1, 500 do pool:async(function(k) return j[k] end, "id"):await() end
    before = before or used()
  end
  print("bounded", used() < before + 2000)
  pool:close()
end
