-- Typed arrays: elements, ranges, errors, atomic changes.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, message)
end

for _, kind in ipairs { "f64", "f32", "i64", "i32", "u8" } do
  local a = pl.array(kind, 5)
  for i = 1, #a do a[i] = i * 2 end
  print(a, #a, a:kind(), a[1], a[5], a[0], a[6], a:sum(), a:sum(2, 3))
  a:fill(7, 2, 4)
  print(table.concat(a:totable(), " "), table.concat(a:totable(2, 3), " "))
  print(a:add(1, 3), a[1], a:cas(1, 5, 9), a:cas(1, 9, 1))
end

local a = pl.array("f64", { 1, 2.5, -3 })
print(a[1], a[2], a[3], math.type(a[1]))
local s = a:slice(2, 3)
s[1] = 99
print(#s, a[2], a:slice(3, 2), #a:slice(4))

-- overlapping copies
local b = pl.array("i64", { 1, 2, 3, 4, 5 })
b:copy(b, 2, 1, 4)
print(table.concat(b:totable(), " "))
b:copy(b, 1, 2, 5)
print(table.concat(b:totable(), " "))
b:copy({ 7, 8 }, 4)
print(table.concat(b:totable(), " "))
b:copy(pl.array("f64", { 5, 6 }))
print(table.concat(b:totable(), " "))

-- iteration, equality, use as a key
local sum = 0
for _, v in ipairs(b) do sum = sum + v end
print(sum, b == b, b == a, type(b), math.type(b[1]))
local t = { [b] = "key" }
print(t[b], t[a])

refused(function() b[6] = 1 end)
refused(function() b[0] = 1 end)
refused(function() b[1] = 1.5 end)
refused(function() b[1] = "1" end)
refused(function() b.x = 1 end)
refused(function() b[1.5] = 1 end)
refused(function() pl.array("u8", 1)[1] = 256 end)
refused(function() pl.array("i32", 1)[1] = -2147483649 end)
refused(pl.array, "f16", 1)
refused(pl.array, "f64", -1)
refused(pl.array, "f64", 1 << 60)
refused(function() a:slice(0) end)
refused(function() a:slice(2, 9) end)
refused(function() a:copy(b, 2) end)
refused(function() pl.array("u8", 1):add(1, 300) end)
refused(function() a.fill({}, 1) end)
refused(function() setmetatable(a, {}) end)
refused(function() debug.setmetatable(a, {}) end)
print(getmetatable(a))
b[2.0] = 42
print(b[2])
