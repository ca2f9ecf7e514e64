-- Generators over wrap: a producer, a filter and a consumer, one value at a time through all three.
-- bench: group=coroutines size=1800000 quick=120000
local n = tonumber(arg and arg[1]) or 1800000
local wrap, yield = coroutine.wrap, coroutine.yield

local function range(k) return wrap(function() for i = 1, k do yield(i) end end) end
local function keep(source, p) return wrap(function() for v in source do if p(v) then yield(v) end end end) end
local function scale(source, k) return wrap(function() for v in source do yield(v * k, v) end end) end

local sum, count = 0, 0
for tripled, v in scale(keep(range(n), function(v) return v % 2 == 1 end), 3) do
  assert(tripled == 3 * v)
  sum = sum + tripled
  count = count + 1
end
assert(count == (n + n % 2) / 2 and sum == 3 * count * count)
print(string.format("generator %d %d", count, sum))
