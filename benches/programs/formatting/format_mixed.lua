-- string.format with integers, floats, padding, hexadecimal, quoting, and a table of results.
-- bench: group=formatting size=150000 quick=9000
local n = tonumber(arg and arg[1]) or 150000
local format = string.format

local length, sum = 0, 0
for i = 1, n do
  local a = format("%5d|%-8s|%08.3f|%x", i % 1000, "n" .. i % 10, i / 7, i % 65536)
  local b = format("%q", "line\n" .. i % 10)
  local c = format("%g %e %.14g %s %%", i / 8, i * 1.5, i / 3, i % 2 == 0)
  local d = format("%+d % d %05d %3s %.3s %c", i % 50, i % 50, i % 50, "ab", "abcdef", 65 + i % 26)
  assert(tonumber(a:sub(16, 23)) - i / 7 < 0.001)
  length = length + #a + #b + #c + #d
  sum = sum + d:byte(-1)
end
local result = format("format_mixed %d %d", length, sum)
local known = { [9000] = "format_mixed 880053 697460", [150000] = "format_mixed 14958420 11624946" }
assert(not known[n] or result == known[n], result)
print(result)
