-- Every flag, width and precision with every conversion, for values that are easy and values that are not: a
-- checksum of all that `string.format` gives. What is appended makes the format long, which takes another way.
local format, long = string.format, ("x"):rep(1100)
local flags = { "", "-", "+0", " ", "#0" }
local widths = { "", "5", "20" }
local precisions = { "", ".", ".2", ".14", ".99" }
local ints = { 0, 1, -1, 7, 10, 99, -100, 99999999, 100000000, -99999999, 0xff, 0xffffffff, 0x100000000,
  math.maxinteger, math.mininteger, 3.0, -0.0 }
local floats = { 0.0, -0.0, 0.5, 1.5, 2.5, -0.125, 0.1, 1 / 3, 2 / 3, 9.5, 9.995, 99.95, 999999.5, 0.0001, 0.00012345,
  0.00009999995, 1e-5, 123456789.125, 1e15, 123456789012345.6, 9007199254740993.0, 4503599627370497.5, 1e17, 1e18,
  1.5e22, 1e100, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.3, 100, 7, -12345.678, 1 / 0, -1 / 0 }
local texts = { "", "a", "hello", ("long "):rep(30), "123", 12, -1.5, true, false }

local sum, count = 0, 0
local function add(text)
  for i = 1, #text, 7 do sum = (sum * 31 + text:byte(i)) % 1000000007 end
  sum = (sum * 31 + #text) % 1000000007
  count = count + 1
end
local function try(spec, value)
  local ok, text = pcall(format, spec, value)
  local ok2, text2 = pcall(format, spec .. long, value)
  assert(ok == ok2, spec)
  if ok then
    assert(text .. long == text2, spec)
    assert(format(spec, value) == text)
    assert(format("<%%" .. spec .. "| and more text %5d>", value, 42) == "<%" .. text .. "| and more text    42>")
  end
  add(text)
end
local function all(letters, values)
  for letter in letters:gmatch "." do
    local before = sum
    for _, flag in ipairs(flags) do
      for _, width in ipairs(widths) do
        for _, precision in ipairs(precisions) do
          local spec = "%" .. flag .. width .. precision .. letter
          for _, value in ipairs(values) do
            -- The C library drops the zeros of what it rounds up to a power of ten.
            local rounded_up = flag:find "#" and letter:find "[gG]" and (value == 999999.5 or value == 99.95)
            if not rounded_up then try(spec, value) end
          end
        end
      end
    end
    print(letter, count, sum)
  end
end
all("dixXo", ints)
all("u", { 0, 1, 99999999, 100000000, math.maxinteger })
all("eEfgGa", floats)
all("s", texts)
all("c", { 65, 97.0, 0 })

for _, value in ipairs { "plain", "quotes \" and \\", "line\nend", "\0001\r\1279", ("q"):rep(600), 12, -7, 1.5, 0.1 } do
  add(format("%q", value))
end
for _, spec in ipairs { "%", "%%", "%5", "%q", "%10q", "%y", "%0000000000000000000005d", "%00000000000000000005d",
  "%123d", "%.123d", "%5-d", "%#d", "%05s", "%.3c", "%-05c", "%5.2", "% %", "%d", "no more" } do
  print(pcall(format, spec))
  print(pcall(format, spec, 42))
  print(pcall(format, spec, "x"))
  print(pcall(format, spec, {} == nil))
end
print(pcall(format, "%d", 1.5))
print(pcall(format, "%d", "10"), pcall(format, "%5.1f", "0x10"), pcall(format, "%c", "65"))
print(pcall(format, "%s"))
print(pcall(format, "%5s", "a\0b"))
print(format("%s %5s|%-6s|%.2s", nil, nil, true, false))
local named = setmetatable({}, { __tostring = function() return "named" end })
print(format("%s and %8s and %.2s and %d", named, named, named, 3))
print(pcall(format, "%s %d", named, "x"))

-- A metamethod for all strings, and its end.
local meta = getmetatable ""
print(format("%s", "text"))
meta.__tostring = function(s) return "<" .. #s .. ">" end
print(format("%s %3s", "text", "x"), tostring "abc")
meta.__tostring = nil
print(format("%s %3s", "text", "x"), tostring "abc")
debug.setmetatable(1, { __tostring = function() return "number" end })
print(format("%s %d %g", 1, 2, 3), tostring(4))
debug.setmetatable(1, nil)
print(format("%s %d %g", 1, 2, 3), tostring(4))

-- Floats of all magnitudes, as `tostring` gives them, and back.
local x = 1
for e = -330, 310, 5 do
  for _, m in ipairs { 1, 1.5, 9.99999999999995, 9.9999999999999, 1 / 3, 2 / 3, 1.0000000000001, 123456.5 } do
    local v = m * 10.0 ^ e
    add(tostring(v))
    add(tostring(-v))
    add(format("%.17g|%.3g|%e|%.16g", v, v, v, v))
    assert(v == 1 / 0 or tonumber(format("%.17g", v)) == v)
  end
end
for i = 1, 3000 do
  x = (x * 16807) % 2147483647
  local v = x / 2 ^ (x % 40)
  add(v .. "")
  add(format("%.2f %.14g %5.1f %10.4f %.0f", v, v, v, v, v))
end
print(count, sum)
