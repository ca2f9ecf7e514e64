-- Calls with many arguments and several results, results adjusted to different counts, missing arguments.
-- bench: group=calls size=2500000 quick=150000
local n = tonumber(arg and arg[1]) or 2500000

local function rotate(a, b, c, d, e, f) return f, a, b, c, d, e end
local function minmax(a, b) if a < b then return a, b end return b, a end
local function optional(a, b, c) return a + (b or 1) + (c or 2) end
local function triple(x) return x, x + 1, x + 2 end
local function sum3(a, b, c) return a + b + c end

local a, b, c, d, e, f = 1, 2, 3, 4, 5, 6
local sum = 0
for i = 1, n do
  a, b, c, d, e, f = rotate(a, b, c, d, e, f)
  local lo, hi = minmax(i % 17, i % 13)
  sum = sum + (hi - lo) + optional(a) + optional(a, b) + optional(a, b, c) + sum3(triple(i % 5))
  sum = sum % 1000003
end
assert(a + b + c + d + e + f == 21)
local result = string.format("arguments %d %d", sum, a)
local known = { [150000] = "arguments 44106 1", [2500000] = "arguments 735006 3" }
assert(not known[n] or result == known[n], result)
print(result)
