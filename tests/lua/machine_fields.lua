-- What machine code knows of fields is true of the table, by whatever name somebody stores into it.
local function class(base)
  local C = setmetatable({}, base and { __index = base })
  C.__index = C
  return C
end

-- The same table by two names.
local function aliases(a, b, n)
  local sum = 0
  for i = 1, n do
    a.x = i
    b.x = b.x + 1
    sum = sum + a.x
    a.x = a.x * 2
    sum = sum + b.x
  end
  return sum, a.x, b.x
end
do
  local t, u = { x = 0, y = 1 }, { x = 0, y = 1 }
  print("aliases", aliases(t, t, 300))
  print("others", aliases(t, u, 300))
end

-- Tables of other shapes, whose fields lie in the same slots.
local function shapes(a, b, n)
  local sum = 0
  for i = 1, n do
    a.x, b.y = i, i * 3
    sum = sum + a.x + b.y
    b.y = b.y - a.x
    sum = sum + b.y
  end
  return sum
end
print("shapes", shapes({ x = 0, y = 0 }, { y = 0, x = 0 }, 300), shapes({ x = 0 }, { y = 0 }, 300))
do
  local both = { x = 0, y = 0 }
  print("both", shapes(both, both, 300))
end

-- A store that meets several shapes.
local function poke(o, v) o.x = v end
local function several(list, n)
  local sum = 0
  for i = 1, n do
    local o = list[i % #list + 1]
    local before = o.x
    for _, other in ipairs(list) do poke(other, before + i) end
    sum = sum + o.x - before
  end
  return sum
end
do
  local a, b = { x = 1 }, { y = 2, x = 1 }
  local c = { z = 1, y = 1, x = 1 }
  print("several", several({ a, b, c, a }, 200), a.x, b.x, c.x)
end

-- Types that change, and fields that go away.
local function changing(o, n)
  local seen = {}
  for i = 1, n do
    o.v = o.v + 1
    if i % 50 == 0 then o.v = o.v / 2 end
    if i % 70 == 0 then o.v = "7" end
    if math.type(o.v) ~= "integer" then seen[#seen + 1] = tostring(o.v) end
  end
  return table.concat(seen, " ", 1, 6), #seen, o.v
end
print("changing", changing({ v = 1 }, 300))
do
  local Base = class()
  Base.v = "of the class"
  local o = setmetatable({ v = 1 }, Base)
  local out = {}
  for i = 1, 200 do
    if i % 3 == 0 then o.v = nil elseif i % 3 == 1 then o.v = i end
    out[i] = tostring(o.v)
  end
  print("gone", out[197], out[198], out[199], out[200])
end

-- Methods that are built in place share what they know of self.
local Walker = class()
function Walker.new() return setmetatable({ x = 0.5, dx = 0.25, steps = 0, turns = 0, log = {} }, Walker) end
function Walker:move() self.x = self.x + self.dx; self.steps = self.steps + 1 end
function Walker:turn() if self.x > 3 or self.x < -3 then self.dx = -self.dx; self.turns = self.turns + 1 end end
function Walker:note() if self.steps % 64 == 0 then self.log[#self.log + 1] = self.x end end
function Walker:step() self:move() self:turn() self:note() end
do
  local w = Walker.new()
  for _ = 1, 2000 do w:step() end
  print("walker", w.x, w.dx, w.steps, w.turns, #w.log, w.log[3], w.log[31])
end

-- Natives, computed names, metamethods and functions that store, between two reads.
local function stores(o, how, n)
  local sum = 0
  for i = 1, n do
    o.x = i
    how(o, i)
    sum = sum + o.x
    o.x = o.x + 1
    sum = sum + o.x
  end
  return sum
end
local name = "x"
local kinds = {
  { "rawset", function(o, i) rawset(o, "x", -i) end },
  { "computed", function(o, i) o[name] = i * 10 end },
  { "nothing", function() end },
  { "next", function(o) for k in next, o do o[k] = 5 end end },
  { "pcall", function(o, i) pcall(function() o.x = i - 7; error("e") end) end },
  { "coroutine", function(o, i) coroutine.wrap(function() o.x = i + 0.5; coroutine.yield() end)() end },
  { "float", function(o, i) if i % 2 == 0 then o.x = i / 2 end end },
  { "grows", function(o, i) o["f" .. i % 5] = i; o.x = o.x + 1 end },
}
for _, kind in ipairs(kinds) do print(kind[1], stores({ x = 0 }, kind[2], 150)) end
do
  local inner = { x = 0 }
  local proxy = setmetatable({}, { __index = inner, __newindex = function(_, k, v) inner[k] = v * 2 end })
  local sum = 0
  for i = 1, 200 do
    inner.x = i
    proxy.x = inner.x
    sum = sum + inner.x
  end
  print("newindex", sum)
end

-- Fields of the table of globals, and of another _ENV.
do
  count, total = 0, 0
  local G = _G
  for i = 1, 300 do
    count = count + 1
    G.total = G.total + count
    total = total + 1
    G.count = G.count + 1
  end
  print("globals", count, total)
end
do
  local env = { n = 0, m = 0 }
  local run = load("local e, rounds = ... for i = 1, rounds do n = n + 1 e.m = e.m + n m = m + 1 e.n = e.n + 1 end", "e", "t", env)
  run(env, 200)
  print("env", env.n, env.m)
end

-- Upvalues that are the table, and closures that store.
do
  local o = { x = 0 }
  local function bump() o.x = o.x + 3 end
  local sum = 0
  for i = 1, 300 do
    o.x = o.x + i
    bump()
    sum = sum + o.x
  end
  print("upvalue", sum, o.x)
end

-- Tables in fields, which are exchanged.
do
  local state = { a = { n = 0 }, b = { n = 100 } }
  local sum = 0
  for i = 1, 300 do
    state.a.n = state.a.n + 1
    local a = state.a
    if i % 10 == 0 then state.a, state.b = state.b, state.a end
    sum = sum + state.a.n - a.n
  end
  print("exchanged", sum, state.a.n, state.b.n)
end

-- A finaliser that stores, in the middle of a loop.
do
  local o, calls = { x = 0, hits = 0 }, 0
  local function litter()
    for _ = 1, 20 do setmetatable({}, { __gc = function() o.hits = o.hits + 1; calls = calls + 1 end }) end
  end
  local bad = 0
  for i = 1, 200 do
    o.x = o.x + 1
    if i % 40 == 0 then litter() collectgarbage() end
    local before = o.hits
    if before > calls then bad = bad + 1 end
  end
  collectgarbage()
  print("finalised", o.x, o.hits == calls, bad)
end

-- Comparisons of floats with constants, at their edges.
local function compare(x)
  return x < 0, x <= 0, x > 100, x >= 100, x == 3, x < 9007199254740993, x > -9007199254740993, 2 < x, 0 >= x
end
do
  local last
  for _ = 1, 100 do
    for _, x in ipairs { 0.0, -0.0, 1.5, 100.0, 100.5, 3.0, 0 / 0, 1 / 0, -1 / 0, 9007199254740992.0 } do
      last = table.concat({ table.unpack((function(...) local t = { ... } for k, v in ipairs(t) do t[k] = tostring(v) end return t end)(compare(x))) }, " ")
    end
  end
  print("edge", last)
  for _, x in ipairs { 0.0, -0.0, 1.5, 100.0, 100.5, 3.0, 0 / 0, 1 / 0, -1 / 0 } do print(x ~= x and "nan" or x, compare(x)) end
end
