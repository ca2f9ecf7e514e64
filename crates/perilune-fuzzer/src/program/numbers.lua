-- What `numbers.rs` builds programs from, behind `prelude.lua`.
local ints = {3, 1, 4, 1, 5, 9, 2, 6}
local floats = {0.5, 1.5, -2.5, 3.25, 1e10, -0.0, 7.0, 8.0}
local both = {1, 2.5, 3, 4.0, -5, 6, 0.75, 8}
local total, scale = 0, 1
-- The integer that a number is, or one in its place: operands of bitwise operators.
local function whole(x) return math.tointeger(x) or 5 end
-- All results in one number, by their types and digits.
local function mix(sum, ...)
  for k = 1, select("#", ...) do
    local v = select(k, ...)
    local kind = math.type(v) or type(v)
    local word = kind == "float" and (v ~= v and "nan" or string.format("%.17gf", v)) or tostring(v)
    for j = 1, #word do sum = (sum * 31 + word:byte(j)) % 1000000007 end
  end
  return sum
end
-- Calls a function that often, with the number of the call first.
local function often(f, times, ...)
  local sum = 0
  for i = 1, times do sum = mix(sum, pcall(f, i, ...)) end
  show("often", times, sum, total, scale)
end
-- Calls it once, and shows what comes of it.
local function once(f, ...)
  show("once", pcall(f, ...))
  show(total, scale, mix(0, table.unpack(ints, 1, 9)), mix(0, table.unpack(floats, 1, 9)), mix(0, table.unpack(both, 1, 9)))
end
