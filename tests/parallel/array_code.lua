-- Hot loops over elements of shared arrays, over globals of tasks, and over what classes with many methods have: machine code does what the interpreter does.
local pl = require "perilune"
local N = 200

-- What each type of elements makes of a number.
local types = { "f64", "f32", "i64", "i32", "u8" }
local function fill(a, from, step)
  for i = 1, #a do a[i] = from + (i - 1) * step end
  local sum = 0
  for i = 1, #a do sum = sum + a[i] end
  return sum
end
for round = 1, 40 do
  for _, ty in ipairs(types) do
    local a = pl.array(ty, N)
    local sum = fill(a, 1, 1)
    assert(sum == N * (N + 1) / 2, ty)
    assert(math.type(sum) == (ty:find "f" and "float" or "integer"), ty)
    assert(math.type(a[N]) == (ty:find "f" and "float" or "integer"), ty)
  end
end

-- One type only, so that the code is for it; then values that need a conversion, or cannot be stored.
local function put(a, i, v) a[i] = v end
local function get(a, i) return a[i] end
for _, ty in ipairs(types) do
  local a = pl.array(ty, N)
  local function each(v) for i = 1, N do a[i] = v end end
  local function sum() local s = 0 for i = 1, N do s = s + a[i] end return s end
  for _ = 1, 60 do each(3) assert(sum() == 3 * N) end
  each(7.0)
  print(ty, sum(), a[1], a[N])
  print(pcall(each, 300), a[1])
  print(pcall(each, 0.5), a[1])
  print(pcall(each, -1), a[1])
  print(pcall(each, 2 ^ 40 | 0), a[1])
  print(pcall(each, "12"), a[1])
  print(pcall(each, nil))
  print(pcall(each, {}))
  each(9)
  assert(sum() == 9 * N)
end

-- Indices that are none, and other objects at the same place.
local a = pl.array("i64", N)
for i = 1, N do a[i] = i end
local function at(t, from, to, step)
  local s = 0
  for i = from, to, step do s = s + t[i] end
  return s
end
for _ = 1, 60 do assert(at(a, 1, N, 1) == N * (N + 1) // 2) end
print(pcall(at, a, 0, N, 1))
print(pcall(at, a, 1, N + 1, 1))
print(pcall(at, a, -N, -1, 1))
print(pcall(at, a, math.mininteger, math.mininteger, 1))
print(pcall(at, a, 1.0, 3.0, 1.0))
print(pcall(at, a, 1.0, 3.0, 0.5))
local table_of_numbers = {}
for i = 1, N do table_of_numbers[i] = 2 * i end
print(at(table_of_numbers, 1, N, 1), at(a, 1, N, 1), at(pl.array("f32", N), 1, N, 1))
print(pcall(at, pl.atomic(1), 1, 2, 1))
for _ = 1, 200 do put(a, 5, 55) assert(get(a, 5) == 55) end
a[5] = 5

-- The array that a variable has changes within the loop, and so does the one in a captured variable.
local b = pl.array("i64", N)
for i = 1, N do b[i] = -i end
local function swapping()
  local x, y, s = a, b, 0
  for i = 1, N do
    s = s * 3 + x[i] & 0xffff
    if i % 7 == 0 then x, y = y, x end
  end
  local function take() return x end
  for i = 1, N do
    s = s * 3 + take()[i] + x[i] & 0xffff
    if i % 5 == 0 then x = i % 2 == 0 and a or b end
  end
  return s
end
local first = swapping()
for _ = 1, 60 do assert(swapping() == first) end
print(first)

-- All of it in tasks, whose globals are those of their domain, or came along.
factor = 3
function scaled(x) return math.floor(x * factor) end
local pool = pl.pool.new { workers = 2 }
local c = pl.array("f64", N)
for round = 1, 40 do
  pool:parallel_for(1, N, function(i)
    local s = 0.0
    for k = 1, 20 do s = s + math.max(a[i], k) + scaled(a[i]) end
    c[i] = s
  end)
  if round == 20 then factor = 5 end
end
local sum = 0
for i = 1, N do sum = sum + c[i] end
print(sum)
print(pool:async(function()
  local s = 0
  for i = 1, 3000 do
    s = s + math.min(i, 7) + select("#", i)
    if i == 2000 then assert(not pcall(function() math_min = 1 end)) end
  end
  return s, rawget(_G, "factor"), math_min
end):await())

-- A class whose methods are a dictionary: one is taken away, replaced, and others are added while the loop is hot.
local Many = {}
Many.__index = Many
for i = 1, 300 do Many["m" .. i] = function() return i end end
local object = setmetatable({}, Many)
local function calls(o, n)
  local s = 0
  for _ = 1, n do
    s = s + o:m7() + o.m9()
  end
  return s
end
for _ = 1, 20 do assert(calls(object, 100) == 1600) end
Many.m7 = function() return 1000 end
print(calls(object, 100))
for i = 301, 2000 do Many["m" .. i] = i end
print(calls(object, 100))
Many.m9 = nil
print(pcall(calls, object, 100))
Many.m9 = function() return 1 end
rawset(object, "m7", function() return 0 end)
print(calls(object, 100), calls(setmetatable({}, Many), 100))
pool:close()
