-- What crosses between domains, and what comes home: the same on one worker and on four, from the main program and inside a task.
local pl = require "perilune"

local PROGRAM = [==[
local pl = require "perilune"
local workers = ...
local pool = pl.pool.new { workers = workers }
local out = {}
local function say(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = tostring(t[i]) end
  out[#out + 1] = table.concat(t, " ")
end
local function L(...) return pool:parallel_for(...) end
local function A(f, ...) return pool:async(f, ...):await() end
local function fails(what, f, ...)
  local ok, e = pcall(f, ...)
  e = tostring(e):gsub("\n.*", ""):gsub("^[^:]*:%d+: ", "")
  say(what, ok and "NOT REFUSED" or e)
end

-- Variables.
do
  local n
  n = n or 5
  L(1, 1, function() assert(n == 5) end)
  say("settled", A(function() return n end))
  local x
  if n > 4 then x = 1 else x = 2 end
  say("branches", A(function() return x end))
  local t = { 1 }
  t = pl.share(t)
  say("shared", A(function() return t[1] end))
end
for i = 1, 2 do
  local n = i
  n = n + 1
  say("in a loop", A(function() return n end))
end
do
  local n = 1
  fails("loop around both", function()
    while n < 3 do
      A(function() return n end)
      n = n + 1
    end
  end)
  while n < 3 do
    local m = n
    say("remedy", A(function() return m end))
    n = n + 1
  end
end
do
  local a, b = pl.array("i64", 1), pl.array("i64", 1)
  for _ = 1, 4 do
    L(1, 1, function() b[1] = a[1] + 1 end)
    a, b = b, a
  end
  say("swap", a[1])
end
do
  local n = 0
  pl.after(0, function() n = n + 1 end)
  while n == 0 do pl.sleep(0.001) end
  say("timer", n)
end
do
  local verbose, nothing = false, nil
  local function set() verbose = true nothing = 1 end
  L(1, 1, function() assert(verbose == false and nothing == nil) end)
  set()
  L(1, 1, function() assert(verbose == true and nothing == 1) end)
  local k = 1
  local function by(i) return i * k end
  local function op(a, b) return a + b * k end
  local list = { 3, 1, 2 }
  local function before(a, b) return a * k < b * k end
  k = 2
  pool:sort(list, before)
  say("loops of tasks", pool:map({ 1, 2 }, by)[2], pool:parallel_scan({ 1, 2, 3 }, op)[3], list[1],
    pool:parallel_reduce(1, 4, 0, by, function(a, b) return a + b + 0 * k end), pool:parallel_find(1, 5, function(i) return i > k end))
  k = 3
  fails("a setter", A, function() return verbose end)
  fails("assigns", L, 1, 1, function() verbose = 1 end)
  local function inner() verbose = 2 end
  fails("assigns behind a name", L, 1, 1, function() inner() end)
end

-- Identity within a crossing.
do
  local a = {}
  local ix, ls = { [a] = 7 }, { a }
  say("keys", A(function() return ix[ls[1]] end), A(function(v) return ix[v] end, ls[1]))
  local E = {}
  say("captured and passed", A(function(v) return v == E end, E))
  say("passed", A(function(v) v.x = 1 return v.x end, E), E.x)
  local deep = { inner = { leaf = {} } }
  say("deep", A(function(t) return t.a.b == deep.inner.leaf, pcall(rawset, t.a.b, 1, 1) end, { a = { b = deep.inner.leaf } }))
  local big = {}
  big.self = big
  big.k = { [big] = 1 }
  say("cycles", A(function() return big.self == big, big.k[big] end))
end

-- Coming home.
do
  local it = { { n = 1 } }
  local r = A(function() return it[1] end)
  r.n = 2
  say("home", r == it[1], it[1].n)
  local held = { it = { { n = 1 } } }
  local t = pool:async(function() return held.it[1] end)
  local first = held.it[1]
  held.it = nil
  collectgarbage()
  r = t:await()
  r.n = 3
  say("kept", r == first, first.n)
  local ch = pl.channel.new()
  local list = { { n = 1 } }
  t = pool:async(function() ch:recv() return list[1] end)
  list[1].n = 9
  ch:send(1)
  say("original", t:await().n)
  t = pool:async(function() ch:recv() return list[1].n end)
  list[1].n = 10
  ch:send(1)
  say("as it was", t:await())
  local f = A(function(name) return ({ list = list, f = { f = A } })[name] end, "list")
  say("whole list", f == list)
  local fs = { function() return 1 end }
  say("functions in tables", A(function(i) return fs[i] end, 1) == fs[1])
end
do
  local P = {}
  P.__index = P
  say("class", getmetatable(A(function() return setmetatable({}, P) end)) == P)
  local ok, e = pcall(A, function() error(setmetatable({}, P)) end)
  say("error", ok, getmetatable(e) == P)
  local third = pl.pool.new { workers = 1 }
  say("third", getmetatable(A(function() return third:async(function() return setmetatable({}, P) end):await() end)) == P)
  third:close()
  say("one crossing", A(function(o) return getmetatable(o) == P end, setmetatable({}, P)))
  say("inside", A(function(pool)
    local Q = {}
    local q = pool:async(function() return setmetatable({}, Q) end):await()
    return getmetatable(q) == Q, pool:async(function(o) return getmetatable(o) == Q end, setmetatable({}, Q)):await()
  end, pool))
  local ch = pl.channel.new(1)
  A(function() ch:send(setmetatable({}, P)) end)
  say("channel", getmetatable(ch:recv()) == P)
  say("results", A(function(o) o.x = 1 return o end, setmetatable({}, P)).x)
end

-- Functions in tables.
do
  local n = 1
  local M = { f = function() return n end }
  L(1, 1, function() assert(M.f() == 1) end)
  n = 2
  L(1, 1, function() assert(M.f() == 2) end)
  M.big = {}
  for i = 1, 5000 do M.big[i] = i end
  n = 3
  L(1, 1, function() assert(M.f() == 3 and #M.big == 5000) end)
  local id = 0
  local S = {}
  S.new = function() id = id + 1 return id end
  S.square = function(x) return x * x end
  say("stateful", A(function(k) return S[k](3) end, "square"))
  fails("stateful", A, function(k) return S[k](3) end, "new")
  say("stateful", id)
  fails("debug", A, function(k) debug.setupvalue(S[k], 1, 5) end, "new")
end

-- Stores.
do
  local r = {}
  fails("store", L, 1, 3, function(i) r[i] = i end)
  fails("store", A, function() r.x = 1
    r.y = 2 end)
  fails("alias", L, 1, 3, function(i) local q = r q[i] = i end)
  fails("insert", A, function() table.insert(r, 1) end)
  local remove = table.remove
  fails("remove", A, function() remove(r) end)
  fails("nested", A, function() return function() r.sub.x = 1 end end)
  r.sub = {}
  fails("nested", A, function() return function() r.sub.x = 1 end end)
  say("move from", A(function() return #table.move(r, 1, 0, 1, {}) end))
  local ch = pl.channel.new(8)
  local proxy = setmetatable({}, { __newindex = function(_, _, v) ch:send(v) end })
  L(1, 3, function(i) proxy[i] = i end)
  say("proxy", ch:recv() + ch:recv() + ch:recv())
  L(1, 1, function(i) proxy.only = i end)
  A(function(i) proxy.only = i end, 2)
  say("proxy, a field", ch:recv() + ch:recv())
end
-- Every kind of table, every way to write to it, in warm code: it raises, and the next crossing brings what was written at home.
do
  local kinds = {
    ints = function() local t = {} for i = 1, 99 do t[i] = i end return t end,
    floats = function() local t = {} for i = 1, 99 do t[i] = i / 2 end return t end,
    mixed = function() local t = { "a", 1, {}, n = 1 } for i = 4, 9 do t[i] = i end return t end,
    holes = function() local t = { 1, nil, 3, nil, 5 } t[7] = 7 return t end,
    record = function() return { x = 1, y = "a", sub = { 1 } } end,
    hash = function() local t = {} for i = 1, 50 do t["k" .. i] = i t[i * 1.5] = i end return t end,
    instance = function() return setmetatable({ x = 1 }, { __index = { y = 2 } }) end,
  }
  local writes = {
    append = function(t) t[#t + 1] = 1 end,
    first = function(t) t[1] = 2 end,
    float = function(t) t[1] = 0.5 end,
    middle = function(t) t[5] = nil end,
    reference = function(t) t[2] = {} end,
    field = function(t) t.x = 3 end,
    new = function(t) t.fresh = 3 end,
    computed = function(t) t["k" .. 7] = 8 end,
    odd = function(t) t[4.5] = true end,
    raw = function(t) rawset(t, "x", 4) end,
    insert = function(t) table.insert(t, 1, 6) end,
    push = function(t) table.insert(t, 6) end,
    remove = function(t) if #t > 0 then table.remove(t, 1) else t.x = nil error("removed", 0) end end,
    sort = function(t) table.sort(t, function(a, b) return tostring(a) > tostring(b) end) t[1] = t[1] end,
    move = function(t) table.move({ 1, 2 }, 1, 2, 1, t) end,
    meta = function(t) setmetatable(t, {}) end,
    unpack = function(t) for i = 1, 3 do t[i] = i end end,
  }
  local function show(t, seen)
    seen = seen or {}
    if type(t) ~= "table" then return tostring(t) end
    if seen[t] then return "..." end
    seen[t] = true
    local keys = {}
    for k, v in pairs(t) do keys[#keys + 1] = (type(k) == "table" and "table" or tostring(k)) .. "=" .. show(v, seen) end
    table.sort(keys)
    return table.concat(keys, ",")
  end
  local count = 0
  for kind, make in pairs(kinds) do
    for how, write in pairs(writes) do
      local t = make()
      local before = show(t)
      local ok, seen, e = A(function(w)
        for _ = 1, 3 do w.warm({}) end
        local ok, e = pcall(w.write, t)
        return ok, show(t), e
      end, { warm = function(x) pcall(write, x) end, write = write })
      if ok or seen ~= before then say("WRONG", kind, how, ok, seen == before, e) end
      pcall(write, t)
      local after = show(t)
      local now = A(function() return show(t) end)
      if now ~= after then say("STALE", kind, how, now, after) end
      count = count + 1
    end
  end
  say("writes", count)
end

-- What is weak, finalised, or cannot cross.
do
  local a, b = {}, {}
  local w = setmetatable({ [a] = 1, [b] = 2 }, { __mode = "k" })
  say("weak", A(function() local n = 0 for _ in pairs(w) do n = n + 1 end collectgarbage() return n, w[a] end))
  local v = setmetatable({ a = a, b = b, n = 3 }, { __mode = "v" })
  say("weak", A(function(k) collectgarbage() return v[k] == a, v.b, v.n end, "a"), b ~= nil)
  local cfg = { n = 3, t = { co = coroutine.create(print) } }
  fails("coroutine", A, function(k) return cfg[k] end, "n")
  say("in part", A(function() return cfg.n end), A(function() return cfg.n + (cfg.m or 1) end))
  local G = setmetatable({}, { __gc = function() end })
  fails("finaliser", A, function() return G end)
  fails("finaliser", A, function() end, G)
  local C = { __gc = function() end }
  say("finaliser", A(function() return setmetatable({}, C) and 1 end))
  local app = { pl = require "perilune", out = io.stdout, sqrt = math.sqrt }
  say("by name", A(function(k) return app[k] == require "perilune", app.out == io.stdout, app.sqrt == math.sqrt end, "pl"))
end

-- What combines results runs as a crossed copy, however the loop is divided.
do
  local T = {}
  function T.h(a) T.x = a end
  fails("combine", pool.parallel_reduce, pool, 1, 9, 0, function(i) return i end, function(a, b) T.h(a) return a + b end)
  say("combine", T.x)
  local h = T.h
  fails("combine", pool.parallel_reduce, pool, 1, 9, 0, function(i) return i end, function(a, b) h(a) return a + b end)
  fails("scan", pool.parallel_scan, pool, { 1, 2, 3 }, function(a, b) T.h(a) return a + b end)
  say("scan", T.x, table.concat(pool:parallel_scan({ 1, 2, 3 }, function(a, b) return a + b end), ","))
end
pool:close()
return table.concat(out, "\n")
]==]

local function run(workers) return assert(load(PROGRAM, "=program"))(workers) end
local first = run(1)
print(first)
print("four workers", run(4) == first)
local pool = pl.pool.new { workers = 2 }
local function inside(text, workers) return assert(load(text, "=program"))(workers) end
for _, workers in ipairs { 1, 4 } do
  local here = pool:async(inside, PROGRAM, workers):await()
  print("in a task", workers, here == first or here)
end
pool:close()
