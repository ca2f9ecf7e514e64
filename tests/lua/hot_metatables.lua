-- Metamethods that are found by the shapes of metatables, while the metatables change: another function, none, a table
-- in place of a function, another metatable of the same shape or of another, operands in the other order.
local function pair(name)
  return {
    __add = function(a, b) return name .. "+" end,
    __mul = function(a, b) return (type(a) == "number" and a or a.v) * (type(b) == "number" and b or b.v) end,
    __lt = function(a, b) return a.v < b.v end,
    __unm = function(a) return -a.v end,
    __index = function(_, k) return name .. "." .. k end,
    __newindex = function(t, k, v) rawset(t, "stored", (rawget(t, "stored") or 0) + v) end,
  }
end
local A, B = pair "A", pair "B"
local function new(m, v) return setmetatable({ v = v, stored = 0 }, m) end
local a, b = new(A, 2), new(B, 3)

local function use(x, y, rounds)
  local last, product, less, negated, read = nil, 0, 0, 0, nil
  for i = 1, rounds do
    last = x + y
    product = product + x * y + 2 * x + y * 0.5
    if x < y then less = less + 1 end
    negated = negated + -x
    read = x.missing
    x.other = i
  end
  return last, product, less, negated, read, rawget(x, "stored"), rawget(x, "other")
end
print(use(a, b, 300))
print(use(b, a, 300))
-- The same functions' places hold others.
A.__add = function() return "new+" end
A.__index = function(_, k) return "new." .. k end
A.__newindex = function(t, k, v) rawset(t, "stored", -v) end
print(use(a, b, 300))
-- One is gone: the second operand's is called.
A.__add = nil
print(use(a, b, 300))
-- A table in place of a function.
A.__index = { missing = "in a table" }
A.__newindex = {}
print(use(a, b, 300))
print(rawget(A.__newindex, "other"))
-- A native, and something that can be called.
A.__add = rawequal
A.__index = setmetatable({}, { __index = function(_, k) return "far." .. k end })
print(use(a, b, 300))
A.__add = setmetatable({}, { __call = function(_, x, y) return x.v + y.v end })
print(use(a, b, 300))
-- Another metatable, of another shape; none at all.
setmetatable(a, { __unm = A.__unm, __mul = A.__mul, __lt = A.__lt, __add = B.__add })
print(use(a, b, 300))
setmetatable(a, nil)
print(select(2, pcall(use, a, b, 3)))
setmetatable(a, B)
print(use(a, b, 300))
-- The field comes to be there, and goes.
rawset(a, "missing", "own")
rawset(a, "other", "own")
print(use(a, b, 300))
a.missing, a.other = nil, nil
print(use(a, b, 300))
-- Keys of many tables, each with a metatable of its own, of one shape.
local sum = 0
for i = 1, 200 do
  local o = setmetatable({}, { __index = function(_, k) return i end, __add = function(x, y) return i end })
  for _ = 1, 5 do sum = sum + o.key + (o + 1) + (1 + o) end
end
print(sum)

-- Operators whose metamethods make integers of what makes floats of numbers, where code has been left before.
local Q = {}
Q.__index = Q
for _, event in ipairs { "__pow", "__div", "__mod", "__idiv", "__band", "__unm", "__bnot", "__shl" } do
  Q[event] = function(a, b) return 2 end
end
local R = { __pow = function() return "r" end, __div = function() return 0.5 end, __band = function() return nil end }
local q, r = setmetatable({}, Q), setmetatable({}, R)
local function powers(x, p, n)
  local s, t = 0, ""
  for i = 1, n do
    local a, b, c, d = p ^ x, x / p, -q, x & p
    if a == 2 and b == 2 then s = s + a + b + c + d else t = t .. tostring(a) .. tostring(b) .. tostring(d) end
  end
  return s, #t
end
local function quotients(x, p, n)
  local s = 0
  for i = 1, n do s = s + x % p + x // p + ~x + (x << p) end
  return s
end
for i = 1, 60 do
  powers(q, 3, 4)
  powers(q, q, 4)
  if i % 3 == 0 then powers(7, 3, 4) powers(r, 3, 2) powers(3, 2, 2) powers(10, 2.0, 2) end
  quotients(q, i, 3)
  quotients(i, q, 3)
  if i % 4 == 0 then quotients(i, 3, 3) quotients(7, 2, 2) end
end
print(powers(q, 3, 40))
print(powers(7, 3, 40))
print(powers(3.0, 2.5 - 0.5, 40))
print(powers(r, 3, 40))
print(quotients(q, 1, 10), quotients(9, 4, 10), quotients(9.0, 4.0, 10))
print(pcall(powers, {}, 1, 1))
print(pcall(quotients, q, {}, 1))

-- The same where nothing but integers has come out, of several classes in turn.
local classes = {}
for i = 1, 6 do
  classes[i] = setmetatable({}, { __pow = function(a, b) return i end, __div = i % 2 == 0 and function() return -i end or function() return i end })
end
local function whole(x, p, n)
  local s = 0
  for i = 1, n do
    local a = p ^ x
    local b = x / p
    s = s + a + b
  end
  return s
end
for round = 1, 30 do
  for i = 1, 6 do whole(classes[(i * round) % 6 + 1], 3, 5) end
  if round % 10 == 0 then pcall(whole, {}, 2, 1) end
end
print(whole(classes[1], 3, 10), whole(classes[6], classes[2], 10), whole(3, 2, 10), whole(classes[5], "x", 10))

-- Numbers get a metatable while a table is their second operand: theirs comes first.
do
  local V = {
    __add = function() return "V" end, __concat = function() return "V" end,
    __lt = function(a, b) return a == 3 end, __le = function() return true end,
  }
  local v, sum = setmetatable({}, V), 0
  local function all(n)
    local r, s, t, u
    for i = 1, n do r, s, t, u = i + v, i .. v, i < v, i <= v end
    return r, s, t, u
  end
  local function short(n)
    local r, s
    for i = 1, n do r, s = i + setmetatable({ i }, V), 0.5 + setmetatable({}, V) end
    return r, s
  end
  print(all(200), short(200))
  debug.setmetatable(0, {
    __add = function() return "N" end, __concat = function() return "N" end, __lt = function() return false end,
    __le = function() return false end,
  })
  print(all(3))
  print(all(200))
  print(short(200))
  debug.setmetatable(0, nil)
  print(all(200), short(200))
end
