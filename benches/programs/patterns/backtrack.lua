-- Patterns that backtrack: several stars, lazy repetition, back references, frontier, position captures.
-- bench: group=patterns size=6000 quick=400
local n = tonumber(arg and arg[1]) or 6000

local text = ("the cat sat on the mat and that was that; "):rep(6)
local misses, found, places = 0, 0, 0
for i = 1, n do
  if not text:find("a.-b.-c.-d.-e.-zz" .. i % 10) then misses = misses + 1 end
  if text:match("(%a+) .* %1; ?$") == "that" then found = found + 1 end
  local at, word = text:match("()%f[%a](m%a+)()")
  places = places + at + #word
  local _, count = text:gsub("%f[%w]th%a*%f[%W]", "")
  places = places + count
  if not text:find("^%s*$") and text:match("^.*;%s*(.-)%s*$") == "" then found = found + 1 end
end
assert(misses == n and found == 2 * n, found)
local result = string.format("backtrack %d", places)
local known = { [400] = "backtrack 18800", [6000] = "backtrack 282000" }
assert(not known[n] or result == known[n], result)
print(result)
