-- Integer arithmetic with a branch that no predictor likes: the longest Collatz chain below n.
-- bench: group=numeric size=150000 quick=10000
local n = tonumber(arg and arg[1]) or 150000

local best, start, total = 0, 0, 0
for i = 1, n do
  local x, len = i, 1
  while x ~= 1 do
    local r = x % 2
    if r == 0 then x = (x - r) * 0.5 else x = 3 * x + 1 end
    len = len + 1
  end
  total = total + len
  if len > best then best, start = len, i end
end
local result = string.format("collatz %d %d %d", start, best, total)
local known = { [10000] = "collatz 6171 262 859666", [150000] = "collatz 142587 375 16907736" }
assert(not known[n] or result == known[n], result)
print(result)
