-- What the debug library changes while loops are hot: locals, upvalues, hooks, metatables of basic types.

local s = 0
local function f(n)
  local a, b = 1, 2
  for i = 1, n do
    a = a + i
    b = a * 2 - b
    if i == 500 then debug.setlocal(1, 2, "str") end
    if type(a) == "string" then a = 7 end
  end
  return a, b
end
for k = 1, 5 do print(pcall(f, 1000)) end
-- set from a called function
local function poke(v) for i = 1, 20 do local n = debug.getlocal(2, i) if n == "acc" then debug.setlocal(2, i, v) end end end
local function g(n, at, v)
  local acc = 0
  for i = 1, n do
    if i == at then poke(v) end
    acc = acc + 1
  end
  return acc
end
for k = 1, 20 do print(pcall(g, 300, 100 + k, ({5, 1.5, "10", "x", {}, 1 << 62, math.huge, "0x10"})[k % 8 + 1])) end
print(pcall(g, 300, 150, nil))
-- upvaluejoin / setupvalue
local function mk() local u = 0 return function(d) u = u + d return u end end
local c1, c2 = mk(), mk()
for i = 1, 300 do
  c1(1) c2(10)
  if i == 100 then debug.upvaluejoin(c1, 1, c2, 1) end
  if i == 200 then debug.setupvalue(c1, 1, 0.5) end
  if i == 250 then debug.setupvalue(c2, 1, "7") end
end
print(c1(0), c2(0))
local function mk2()
  local up = 1
  local function get() return up end
  local t = 0
  for i = 1, 300 do
    if i == 150 then debug.setupvalue(get, 1, "5") end
    if i == 200 then debug.setupvalue(get, 1, setmetatable({}, {__add = function(a, b) return 3 end})) end
    t = t + up
    if i == 250 then up = nil end
  end
end
print(pcall(mk2))
local function mk3()
  local up, other = 1, 1000
  local function get() return up end
  local function get2() return other end
  local t = 0
  for i = 1, 300 do
    if i == 150 then debug.upvaluejoin(get, 1, get2, 1) end
    up = up + 1
    t = t + get()
  end
  return t, up, other
end
for i = 1, 4 do print(mk3()) end
-- hooks
local cnt = 0
local function loop(n) local x = 0 for i = 1, n do x = x + i end return x end
for k = 1, 20 do
  debug.sethook(function(e, l) cnt = cnt + 1 end, "", 10)
  loop(1000)
  debug.sethook()
  loop(1000)
end
print(cnt > 0)
local lines = {}
debug.sethook(function(e, l) lines[#lines + 1] = l end, "l")
local q = 0
for i = 1, 5 do
  q = q + i
end
debug.sethook()
local base = lines[1]
for i = 1, #lines do lines[i] = lines[i] - base end
print(table.concat(lines, " "))
-- hook installed within a hot loop from function
local calls = {}
local function target(i) return i + 1 end
local function inst(i)
  if i == 150 then debug.sethook(function(e) local n = debug.getinfo(2, "n").name calls[#calls+1] = e .. ":" .. tostring(n) end, "cr") end if i == 153 then debug.sethook() end end
local function hot() local z = 0 for i = 1, 300 do inst(i) z = target(z) end return z end
print(hot()) print(table.concat(calls, " "))
-- hook which errors
local function spin() local i = 0 while true do i = i + 1 end end
for k = 1, 5 do
  debug.sethook(function() error("stop" .. k, 0) end, "", 1000)
  print(pcall(spin))
  debug.sethook()
end
-- hook which sets local
local function spin2() local flag = false local i = 0 while not flag do i = i + 1 end return "out" end
for k = 1, 3 do
  local c = 0
  debug.sethook(function() c = c + 1 if c == 5 then local i = 1 while true do local n = debug.getlocal(2, i) if not n then break end if n == "flag" then debug.setlocal(2, i, true) end i = i + 1 end end end, "", 1000)
  print(pcall(spin2))
  debug.sethook()
end
-- hook that yields? (lua_yield from hook not available in Lua); coroutines with hooks
local co = coroutine.create(function() local x = 0 for i = 1, 1000 do x = x + i if i % 100 == 0 then coroutine.yield(x) end end end)
local hc = 0
debug.sethook(co, function() hc = hc + 1 end, "", 100)
while coroutine.resume(co) and coroutine.status(co) ~= "dead" do end
print(hc > 10)
-- debug.getinfo inlined frames, traceback
local function inner() return debug.traceback("t", 1) end
local function outer() local r = inner() return r end
local r0
for i = 1, 200 do local r = outer() if r0 and r ~= r0 then print("differs", r) end r0 = r end
print((r0:gsub("\n.*main chunk.*", "")))
-- level of tail calls
local function tc() return debug.getinfo(1, "t").istailcall end
local function tc2() return tc() end
for i = 1, 200 do if not tc2() then print "no" end if i % 100 == 0 then print(tc2()) end end
-- setmetatable on basic types within a hot loop
local function arith(a, n)
  local x = a
  for i = 1, n do
    if i == 100 then debug.setmetatable(true, {__add = function(a, b) return 1 end}) x = true end x = x + 1
  end
  debug.setmetatable(true, nil)
  return x
end
for i = 1, 4 do print(arith(0, 200)) end
local function strl(n)
  local x = 0 local s = "abc"
  for i = 1, n do
    if i == n - 5 then getmetatable("").__index = function(t, k) return function() return 42 end end end x = x + s:len() end getmetatable("").__index = string
  return x
end
for i = 1, 4 do print(strl(200)) end
local function numi(n)
  local x = 0
  for i = 1, n do
    if i == 100 then debug.setmetatable(1, {__index = function(t, k) return k end, __call = function(s, a) return a end, __len = function() return 9 end}) end if i > 100 then x = x + i[7] + (5)(2) + #i end
  end
  debug.setmetatable(1, nil)
  return x
end
for i = 1, 4 do print(numi(200)) end
print(pcall(numi, 50))
local function nilx(n)
  local x = 0 local v
  for i = 1, n do
    if i == 100 then debug.setmetatable(nil, {__index = function(t, k) return 3 end}) end if i > 100 then x = x + v.foo end
  end
  debug.setmetatable(nil, nil)
  return x
end
for i = 1, 4 do print(nilx(200)) end
print(pcall(function() local v return v.foo end))
