-- Numbers to text and back: tostring, tonumber with bases, concatenation, coercion in arithmetic.
-- bench: group=formatting size=350000 quick=22000
local n = tonumber(arg and arg[1]) or 350000
local tostring, tonumber = tostring, tonumber

local sum, length = 0, 0
for i = 1, n do
  local s = tostring(i)
  sum = sum + tonumber(s) - i
  local f = tostring(i + 0.5)
  sum = sum + (tonumber(f) - i) * 2
  sum = sum + tonumber(("%x"):format(i % 4096), 16) - i % 4096
  local t = (i % 100) .. "." .. (i % 10)
  sum = sum + tonumber(t) * 0
  sum = sum + ("10" + 5) - 15
  length = length + #s + #f + #t
end
assert(sum == n)
local result = string.format("numbers_text %d", length)
local known = { [22000] = "numbers_text 327588", [350000] = "numbers_text 6042790" }
assert(not known[n] or result == known[n], result)
print(result)
