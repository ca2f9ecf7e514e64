-- string.format, byte by byte as C prints.
local function e(...) print(select(2, pcall(...))) end
local ints = { 0, 1, -1, 42, -42, 255, math.maxinteger, math.mininteger }
for _, f in ipairs { "%d", "%5d|", "%-5d|", "%05d", "%+d", "% d", "%.3d", "%8.3d|", "%.0d", "%i" } do
  for _, n in ipairs(ints) do io.write(string.format(f, n), " ") end print()
end
for _, f in ipairs { "%u", "%x", "%X", "%#x", "%o", "%#o", "%.5x", "%08x", "%-8x|" } do
  for _, n in ipairs(ints) do io.write(string.format(f, n), " ") end print()
end
local floats = { 0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 2.5, 1e15, 123456789.125, 1e100, 5e-324, 1.7976931348623157e308, 1 / 0, -1 / 0, 1e-10, 99999.5, 0.5 }
for _, f in ipairs { "%f", "%.0f", "%.1f", "%.3f", "%10.2f|", "%-10.2f|", "%+.2f", "% .2f", "%010.2f", "%#.0f", "%.20f" } do
  for _, n in ipairs(floats) do io.write(string.format(f, n), " ") end print()
end
for _, f in ipairs { "%e", "%.0e", "%#.0e", "%.10E", "%g", "%.0g", "%.3g", "%#g", "%.14g", "%.17g", "%G", "%12.4g|", "%-12.4g|", "%012.4g" } do
  for _, n in ipairs(floats) do io.write(string.format(f, n), " ") end print()
end
for _, f in ipairs { "%a", "%A", "%.0a", "%.3a", "%20a|", "%-20a|", "%020a", "%+a" } do
  for _, n in ipairs(floats) do io.write(string.format(f, n), " ") end print()
end
print(string.format("%s %s %s %s %s", "x", 1, 1.0, nil, true), string.format("%10s|%-10s|%.2s|%5.1s|", "ab", "cd", "efg", "hij"))
print(string.format("%s", setmetatable({}, { __tostring = function() return "object" end })), string.format("%.3s", setmetatable({}, { __tostring = function() return "object" end })))
print(string.format("%c%c%c|%5c|%-5c|", 72, 105, 33, 65, 66), string.format("%%"), string.format("%5s%%", "x"))
print(string.format("%q", 'a\n\0001\r"\\\127\200'), string.format("%q %q %q %q %q %q", 1, 1.5, math.mininteger, 1 / 0, -1 / 0, true))
print(string.format("%p %10p|%-10p|", 1, nil, true), string.format("%p", "abc") == string.format("%p", "ab" .. "c"), #string.format("%p", {}) > 4)
print(#string.format("%99.99f", -1e308), #string.format("%s", ("x"):rep(200)), #string.format("%50s", ("x"):rep(200)))
e(string.format, "%d", 1.5) e(string.format, "%d", "1.5") e(string.format, "%d", "x") e(string.format, "%d") e(string.format, "%x", -1.0)
e(string.format, "%5q", "x") e(string.format, "%q", print) e(string.format, "%5s", "a\0b") e(string.format, "%f", {})
e(string.format, "%s", setmetatable({}, { __tostring = function() return {} end }))
