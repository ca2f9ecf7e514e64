-- math library: types of results, edges, messages.
local function msg(f, ...)
  local ok, e = pcall(f, ...)
  print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ ")))
end
local min, max, huge = math.mininteger, math.maxinteger, math.huge
print(min, max, huge, -huge, math.pi)
for _, v in ipairs {0, -0.0, 1, -1, 2.5, -2.5, 1e15, 1e100, -1e100, huge, -huge, min, max, 2^53, -2^63, 2^63, "10", "0x10", " 2.5 "} do
  print(v, math.floor(v), math.ceil(v), math.abs(v), math.tointeger(v), math.type(v), math.modf(v))
end
msg(math.floor) msg(math.floor, {}) msg(math.ceil, "x") msg(math.abs, nil) msg(math.tointeger) msg(math.type) msg(math.sqrt) msg(math.modf, "z")
print(math.tointeger("8"), math.tointeger("x"), math.tointeger({}), math.tointeger(3.0), math.tointeger(3.5), math.tointeger("3.0"))
print(math.fmod(7, 3), math.fmod(-7, 3), math.fmod(7, -3), math.fmod(-6, 2), math.fmod(7.5, 2), math.fmod(-7.5, 2), math.fmod(min, -1), math.fmod(5, huge), math.fmod(min, min))
msg(math.fmod, 1, 0) msg(math.fmod, 1) print(math.fmod(1, 0.0) ~= math.fmod(1, 0.0), math.fmod(3, 1.5))
print(math.max(1, 2.5), math.max(2, 2.0), math.max(2.0, 2), math.min(1, -1, 0), math.max(min, -huge), math.min(max, 2^63), math.max("10", "9"))
msg(math.max) msg(math.min) msg(math.max, 1, "2") msg(math.min, {}, 1)
print(math.ult(1, 2), math.ult(-1, 2), math.ult(2, -1), math.ult(0, 0)) msg(math.ult, 1) msg(math.ult, 1, 2.5)
print(math.sqrt(16), math.sin(0), math.cos(0), math.tan(0), math.exp(0), math.asin(1) == math.pi / 2, math.acos(1), math.atan(1, 0) == math.pi / 2, math.atan(-0.0, -1), math.atan(1))
print(math.log(1), math.log(8, 2), math.log(1000, 10), math.log(27, 3), math.log(0), math.log(2, 1)) msg(math.log) msg(math.log, 1, "x")
print(math.deg(math.pi), math.rad(180), string.format("%.14g %.14g", math.sin(1), math.exp(1)))

print(math.randomseed(42))
for _ = 1, 5 do print(math.random(0), math.random(), math.random(10), math.random(-5, 5), math.random(min, max), math.random(1, 3000000000)) end
print(math.randomseed(7, 9)) print(math.random(0)) print(math.randomseed("123")) print(math.random(0)) print(math.randomseed(2.0)) print(math.random(0))
msg(math.random, 0, -1) msg(math.random, -3) msg(math.random, 1, 2, 3) msg(math.random, 1.5) msg(math.random, "x") msg(math.randomseed, 1.5) msg(math.randomseed, {})
print(math.random(3, 3), math.random(max, max), math.random(min, min), select("#", math.randomseed()), math.type(math.randomseed()))
