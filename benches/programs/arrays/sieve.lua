-- Sieve of Eratosthenes: an array of booleans filled once and written with growing strides.
-- bench: group=arrays size=6000000 quick=600000
local n = tonumber(arg and arg[1]) or 6000000

local composite = {}
for i = 1, n do composite[i] = false end
local count, i = 0, 2
while i <= n do
  if not composite[i] then
    count = count + 1
    for j = i * i, n, i do composite[j] = true end
  end
  i = i + 1
end
local result = string.format("sieve %d", count)
local known = { [600000] = "sieve 49098", [6000000] = "sieve 412849" }
assert(not known[n] or result == known[n], result)
print(result)
