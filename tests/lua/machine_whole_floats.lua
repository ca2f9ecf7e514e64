-- Remainders of floats, and integers made of floats, at and beyond the limits of either.
local function rest(x, y) return x % y end
local function key(t, x) return t[x] end
local values = { 0.0, -0.0, 1.0, 2.5, -2.5, 7.0, 10.0, 2^31, 2^32, 2^52 + 1, 2^53, 2^53 + 2, 2^62, 2^63, -2^63, 2^63 - 1024, 2^64, 1e300, 1/0, -1/0, 0/0, 3, 10, 1 << 53, (1 << 53) + 1, (1 << 62) + 1, math.maxinteger, math.mininteger }
local t = { "one", "two", "three" }
for _ = 1, 20 do for x = 1, 50 do rest(x + 0.0, 7.0) rest(x + 0.0, x) key(t, 2.0) end end
local function show(x) return x ~= x and "nan" or math.type(x) == "float" and string.format("%a", x) or tostring(x) end
local function floors(x) return math.floor(x), math.ceil(x) end
local function by_ten(x) return x % 10 end
local function by_int(x, i) return (x + 0.0) % i end
for _ = 1, 20 do for x = 1, 50 do floors(x + 0.5) by_ten(x + 0.0) by_int(x, x) end end
for _, x in ipairs(values) do
  local f, c = floors(x)
  print(show(x), show(f), show(c), show(by_ten(x)), key(t, x))
  for _, y in ipairs(values) do
    local ok, r = pcall(rest, x, y)
    local ok2, r2 = pcall(by_int, x, y)
    print(show(x), show(y), ok and show(r) or r:match "attempt.*", ok2 and show(r2))
  end
end
local n = 0
for i = 1, 2^53 > 0 and 3.7 or 1 do n = n + i end
print(n)
