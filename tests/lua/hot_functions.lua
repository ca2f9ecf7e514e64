-- Functions in variables that get others while hot loops call them: by assignment, by a function that is built in place, by the debug library, in coroutines, by metamethods.
local function one(x) return x + 1 end
local function two(x) return x + 2 end
local f, g, sqrt = one, one, math.sqrt

local function loop(n, change, at)
  local s = 0
  for i = 1, n do
    s = s + f(i) * 2 + g(i)
    if i == at then change(i) end
    s = s + f(i)
  end
  return s
end
print(loop(4000, function() end, 0))
print(loop(4000, function() f = two end, 3000))
print(loop(4000, function() f, g = one, two end, 1000))
g = one

-- Set in the loop itself, and by what is built in place.
local function set(x) f = x end
local function own(n)
  local s = 0
  for i = 1, n do
    s = s + f(i)
    if i % 1000 == 0 then set(i % 2000 == 0 and one or two) end
    s = s + f(i)
    if i == 3500 then f = math.abs end
    s = s + f(-i)
    if i == 3600 then f = one end
  end
  return s
end
print(own(5000))

-- By the debug library, from a function that the loop calls.
f = one
local function meddle(i)
  if i == 3000 then
    local n = 1
    while true do
      local name = debug.getupvalue(loop, n)
      if name == "f" then break end
      n = n + 1
    end
    debug.setupvalue(loop, n, two)
  end
end
local function with_debug(n)
  local s = 0
  for i = 1, n do
    s = s + f(i)
    meddle(i)
    s = s + f(i) * 3
  end
  return s
end
print(with_debug(4000), f == two)
local function join(i)
  if i == 2500 then
    local function other() return sqrt end
    local target, source
    for n = 1, 10 do if debug.getupvalue(with_debug, n) == "f" then target = n end end
    sqrt = one
    for n = 1, 10 do if debug.getupvalue(other, n) == "sqrt" then source = n end end
    debug.upvaluejoin(with_debug, target, other, source)
  end
end
local kept = meddle
meddle = join
print(with_debug(4000))
meddle = kept
sqrt = math.sqrt

-- Natives, which others take the place of.
local floor = math.floor
local function natives(n, at, other)
  local s = 0
  for i = 1, n do
    s = s + floor(i / 2) + sqrt(i * i)
    if i == at then floor = other end
  end
  floor = math.floor
  return s
end
print(natives(4000, 0), natives(4000, 2000, math.ceil), natives(4000, 2000, one))
print(pcall(natives, 4000, 3999, nil))

-- In coroutines that go on by turns.
f = one
local function worker(n, own_function)
  return coroutine.wrap(function()
    local s = 0
    for i = 1, n do
      s = s + f(i)
      if i % 500 == 0 then f = own_function coroutine.yield(s) end
    end
    return s
  end)
end
local a, b = worker(3000, one), worker(3000, two)
local last = 0
for _ = 1, 6 do last = last + a() + b() end
print(last)

-- By a metamethod of what the loop computes with.
local object = setmetatable({}, { __add = function(o, x) if x == 2000 then f = two end return x end })
f = one
local function meta(n)
  local s = 0
  for i = 1, n do s = s + f(i) + (object + i) end
  return s
end
print(meta(4000))

-- Globals, and fields of a module.
function helper(x) return x * 2 end
local module = { helper = helper }
local function globals(n)
  local s = 0
  for i = 1, n do
    s = s + helper(i) + module.helper(i)
    if i == 2000 then helper = one end
    if i == 3000 then module.helper = two end
  end
  return s
end
print(globals(4000))

-- Parameters, and several closures of one function.
local function counter() local n = 0 return function(k) n = n + k return n end end
local function apply(h, n) local s = 0 for i = 1, n do s = s + h(i % 3) end return s end
print(apply(counter(), 3000), apply(counter(), 3000), apply(one, 3000), apply(math.abs, 3000))
local counters = { counter(), counter(), counter() }
local s = 0
for i = 1, 6000 do s = s + counters[i % 3 + 1](1) end
print(s)

-- A variable of a loop that a function refers to.
local sum = 0
for i = 1, 3000 do
  local h = i % 1000 < 900 and one or two
  local function call(x) return h(x) end
  sum = sum + call(i)
  h = two
  sum = sum + call(i)
end
print(sum)
