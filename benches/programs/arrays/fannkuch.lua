-- Pancake flips over all permutations of n numbers: short arrays, reversed in place again and again.
-- bench: group=arrays size=10 quick=8
local n = tonumber(arg and arg[1]) or 10

local perm, work, count = {}, {}, {}
for i = 1, n do perm[i] = i; count[i] = i end
local best, checksum, sign = 0, 0, 1
local permutations = 0
while true do
  permutations = permutations + 1
  local first = perm[1]
  if first ~= 1 then
    for i = 1, n do work[i] = perm[i] end
    local flips = 0
    repeat
      local lo, hi = 1, first
      while lo < hi do
        work[lo], work[hi] = work[hi], work[lo]
        lo, hi = lo + 1, hi - 1
      end
      flips = flips + 1
      first = work[1]
    until first == 1
    if flips > best then best = flips end
    checksum = checksum + sign * flips
  end
  sign = -sign
  -- Next permutation: rotate the first r elements until a counter is left.
  local r = 2
  while true do
    if r > n then
      local factorial = 1
      for i = 2, n do factorial = factorial * i end
      assert(permutations == factorial)
      local known = { [8] = 22, [10] = 38 }
      assert(not known[n] or best == known[n], best)
      print(string.format("fannkuch %d %d", best, checksum))
      return
    end
    local p1 = perm[1]
    for i = 1, r - 1 do perm[i] = perm[i + 1] end
    perm[r] = p1
    count[r] = count[r] - 1
    if count[r] > 0 then break end
    count[r] = r
    r = r + 1
  end
end
