-- Takeuchi's function: three arguments, calls nested in argument lists, globals as call targets.
-- bench: group=calls size=8 quick=6
local n = tonumber(arg and arg[1]) or 8

local calls = 0

function tak(x, y, z)
  calls = calls + 1
  if y >= x then return z end
  return tak(tak(x - 1, y, z), tak(y - 1, z, x), tak(z - 1, x, y))
end

local sum = 0
for i = 1, 8 do
  sum = sum + tak(2 * n + (i % 2), n + (i % 2), i % 2)
end
local result = string.format("tak %d %d", sum, calls)
local known = { [6] = "tak 12 508872", [8] = "tak 12 19946792" }
assert(not known[n] or result == known[n], result)
print(result)
