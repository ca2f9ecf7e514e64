-- Functional style: compose, curry, map, filter, fold over small lists, every stage a fresh closure.
-- bench: group=closures size=100000 quick=6000
local n = tonumber(arg and arg[1]) or 100000

local function map(f) return function(xs)
  local out = {}
  for i = 1, #xs do out[i] = f(xs[i]) end
  return out
end end
local function filter(p) return function(xs)
  local out = {}
  for i = 1, #xs do if p(xs[i]) then out[#out + 1] = xs[i] end end
  return out
end end
local function fold(f, z) return function(xs)
  local acc = z
  for i = 1, #xs do acc = f(acc, xs[i]) end
  return acc
end end
local function compose(f, g) return function(x) return g(f(x)) end end
local function add(a) return function(b) return a + b end end
local function multiple_of(k) return function(x) return x % k == 0 end end

local input = {}
for i = 1, 40 do input[i] = i end
local sum = 0
for i = 1, n do
  local k = i % 5 + 1
  local stages = compose(compose(map(add(i % 11)), filter(multiple_of(k))), fold(function(a, x) return a + x * k end, 0))
  sum = sum + stages(input)
end
-- Each stage again without a closure.
local expect = 0
for i = 1, n do
  local k = i % 5 + 1
  for x = 1, 40 do
    local y = x + i % 11
    if y % k == 0 then expect = expect + y * k end
  end
end
assert(sum == expect)
print(string.format("pipeline %d", sum))
