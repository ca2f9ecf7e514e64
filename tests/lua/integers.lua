-- Integer arithmetic: wrap-around, division, modulo, bitwise, conversions.
local maxi, mini = math.maxinteger, math.mininteger
print(maxi, mini, maxi + 1 == mini, mini - 1 == maxi, -mini == mini, mini * -1 == mini)
print(maxi * 2, mini * 2, maxi * maxi, mini * mini, maxi + maxi)
print(7 // 2, -7 // 2, 7 // -2, -7 // -2, 6 // 3, -6 // 3, 0 // 5, 0 // -5)
print(7 % 2, -7 % 2, 7 % -2, -7 % -2, 6 % 3, -6 % 3, 0 % 5, 0 % -5)
print(mini // -1, mini % -1, mini // 1, mini % 2, maxi // -1, maxi % -2)
print(mini // maxi, mini % maxi, maxi // mini, maxi % mini)
for _, op in ipairs { "//", "%" } do
  print(pcall(load("return 1 " .. op .. " 0")))
  print(pcall(load("local a, b = 1, 0 return a " .. op .. " b")))
  print(pcall(load("local a = 5 return a " .. op .. " 0")))
  print(pcall(load("local b = 0 return 5 " .. op .. " b")))
  print(pcall(load("return 1.0 " .. op .. " 0")))
end
print(1 / 2, 4 / 2, 1 / 0, -1 / 0, 3 / -0.0)
print(2 ^ 2, 2 ^ 0.5, 2 ^ 63, -2 ^ 2, 2 ^ -1, 0 ^ 0)
print(1 << 0, 1 << 1, 1 << 62, 1 << 63, 1 << 64, 1 << 100, 1 << -1, 1 << -64)
print(-1 >> 1, -1 >> 63, -1 >> 64, -1 >> -1, -1 << 1, mini >> 63, mini << 1, 1 >> mini, 1 << mini, 1 << maxi, 1 >> maxi)
print(0xF0 & 0x3C, 0xF0 | 0x0F, 0xFF ~ 0x0F, ~0, ~maxi, ~mini, ~5)
print(3.0 & 1, 2.0 | 1, 1.0 << 2.0, ~0.0)
print(pcall(function() return "7" & 3 end))
print(pcall(function() return 5 ~ "3" end))
print(pcall(function() return ~"0" end))
print(pcall(function() local s = "2"; return s << 1 end))
print(pcall(function() return 1.5 & 1 end))
print(pcall(function() return "1.5" & 1 end))
print(pcall(function() return 2^63 | 0 end))
print(pcall(function() return -2^63 | 0 end))
print(pcall(function() return 1e100 | 0 end))
print(pcall(function() return "abc" & 1 end))
print(pcall(function() return {} | 1 end))
print(pcall(function() local x = 1.5; return ~x end))
print(pcall(function() return 0/0 | 1 end))
print(math.type(1), math.type(1.0), math.type(2^31), math.type(3 // 1), math.type(3.0 // 1), math.type(3 % 2.0), math.type("1"), math.type(nil))
print(math.type(10 / 2), math.type(1 + 1.0), math.type(1 * 1), math.type(-(1)), math.type(7 // 0.5))
print(1 == 1.0, math.type(1) == math.type(1.0), "1" == 1, 0 == -0, 0.0 == -0.0, 1/0.0 == 1/-0.0)
-- loops that add up to a known sum
local s = 0
for i = 1, 1000 do s = s + i * i % 7 - i // 3 end
print(s)
local h = 5381
for i = 1, 100 do h = (h << 5) + h ~ i end
print(h)
local f = 1
for i = 1, 25 do f = f * i end
print(f)
local a, b = 0, 1
for i = 1, 100 do a, b = b, a + b end
print(a, b)
print(maxi // 1 | 0, maxi + 0.0, mini + 0.0, maxi + 1.0 == 2^63, maxi + 0.0 == maxi, mini + 0.0 == mini)
print(math.tointeger(3.0), math.tointeger(3.5), math.tointeger("8"), math.tointeger(2^53), math.tointeger(2^63), math.tointeger(-2^63), math.tointeger({}))
print(math.ult(1, -1), math.ult(-1, 1), math.ult(1, 2), math.ult(2, 1), math.ult(mini, maxi))
print(math.abs(mini), math.abs(-5), math.abs(5), math.abs(-0.0), math.abs(maxi))
print(string.format("%d %d %d", maxi, mini, -1), string.format("%x", -1), string.format("%X", mini))
print(5 // 0.0, -5 // 0.0, 0 // 0.0 ~= 0 // 0.0, 5 % math.huge, -5 % math.huge, 5 % -math.huge, -5 % -math.huge)
print(1e15 // 1, 2^53 // 1, 2^53 % 2, (2^53 + 1) % 2)
