-- Protected calls, errors, closing variables, goto and variable arguments in hot loops: what is left and entered again is as it was.

local P = print
local function closing(f) return setmetatable({}, {__close = f}) end
local out = {}
local function w(...) out[#out+1] = table.concat({...}, ",") end
local function a(n)
  local i = 0
  ::top::
  do
    local c <close> = closing(function() i = i + 1 end)
    local k = i
    out[#out+1] = function() return k end
    if i < n then goto top end
  end
  local s = 0
  for j = 1, #out do s = s + out[j]() out[j] = nil end
  return i, s
end
for r = 1, 6 do P(a(50)) end
local function b(n)
  local r = {}
  for i = 1, n do
    local up = i
    local f = function() up = up + 1 return up end
    if i % 3 == 0 then goto continue end
    r[#r + 1] = f
    do local c <close> = closing(function() f() end) if i % 5 == 0 then goto continue end end
    r[#r + 1] = f
    ::continue::
  end
  local s = 0
  for i = 1, #r do s = s * 3 % 10007 + r[i]() end
  return s
end
for r = 1, 6 do P(b(100)) end
-- irreducible goto
local function irr(n)
  local x, y = n, 0
  if n % 2 == 0 then goto B end
  ::A:: y = y + 1 x = x - 1 if x <= 0 then return y end
  if x % 3 == 0 then goto B end
  goto A
  ::B:: y = y + 100 x = x - 2 if x <= 0 then return y end
  if x % 5 == 1 then goto A end
  if x % 7 == 1 then y = y + 0.5 end
  goto B
end
for i = 1, 40 do P(irr(i * 13)) end
-- pcall in loops
local function thrower(i) if i % 4 == 0 then error("e" .. i) elseif i % 4 == 1 then error({i}) elseif i % 4 == 2 then return i, i + 1 end end
local function pl(n)
  local s, k = 0, {}
  for i = 1, n do
    local ok, x, y = pcall(thrower, i)
    if ok then s = s + (x or 0.5) + (y or 0) else s = s + (type(x) == "table" and x[1] or #x) end
    k[ok] = (k[ok] or 0) + 1
    local ok2 = pcall(error) k[tostring(ok2)] = (k[tostring(ok2)] or 0) + 1
    s = s + select("#", pcall(thrower, i))
    if i % 50 == 0 then local ok, e = pcall(function() local z = x + {} end) w(tostring(ok), (tostring(e):gsub("0x%x+", ""))) end
  end
  return s, k[true], k[false], k["false"]
end
for r = 1, 4 do P(pl(200)) end for i = 1, #out do P(out[i]) out[i] = nil end
-- pcall with upvalues assigned before errors
local function pu(n)
  local acc, last = 0, nil
  for i = 1, n do
    local v = i
    local ok = pcall(function() v = v * 2 last = v if i % 3 == 0 then error() end v = v + 0.5 end)
    acc = acc + v
    if not ok then acc = acc + 1000 end
  end
  return acc, last
end
for r = 1, 4 do P(pu(100)) end
-- xpcall with handlers that error, tracebacks
local function xp(n) local s = 0 for i = 1, n do local ok, m = xpcall(function(x) return x.y.z end, function(m) if i % 2 == 0 then error("again") end return #m end, {}) s = s + (type(m) == "number" and m or 1) end return s end
for r = 1, 3 do P(xp(60)) end
-- error in loop states and its variable names
local function nm(n, v) local t = {f = {}} local r for i = 1, n do if i == n then t.f = v end r = t.f.g end return r end
for r = 1, 3 do P(pcall(nm, 50, nil)) P(pcall(nm, 50, 5)) end
local function nm2(n)
  local s = 0
  for i = 1, n do local q = i < n and 1 or nil s = s + q end
end
for r = 1, 3 do P(pcall(nm2, 70)) end
local function nm3(n)
  local s = ""
  for i = 1, n do local q = i < n and "x" or {} s = s .. q end
end
for r = 1, 3 do P(pcall(nm3, 70)) end
local function nm4(n)
  for i = 1, n do local q = i < n and print or nil
  if i == n then q() end end
end
for r = 1, 3 do P(pcall(nm4, 70)) end
local function nm5(n)
  local u = 1 local function g()
  return u end
  for i = 1, n do
  if i == n then u = "abc" end local x = u < 5 end
end
for r = 1, 3 do P(pcall(nm5, 70)) end
local function nm6(n)
  for i = 1, n do local x = i == n and 1.5 or 1 local y = x | 1 end
end
for r = 1, 3 do P(pcall(nm6, 70)) end
local function nm7(n)
  local t = {}
  for i = 1, n do t[i == n and nil or i] = 1 end
end
for r = 1, 3 do P(pcall(nm7, 70)) end
local function nm8(n)
  local t = setmetatable({}, {__index = function(t, k) if k == n then error("idx", 2) end
  return k end}) local s = 0
  for i = 1, n do s = s + t[i] end
end
for r = 1, 3 do P(pcall(nm8, 70)) end
local function nm9(n)
  for i = 1, n do local d = i == n and 0 or 3 local y = i // d + i % d end
end
for r = 1, 3 do P(pcall(nm9, 70)) end
local function nm10(n)
  for i = 1, n do
  for j = 1, i == n and "x" or 2 do end end
end
for r = 1, 3 do P(pcall(nm10, 70)) end
-- varargs in coroutines
local function vg(...) local n = select("#", ...) local s = 0 for i = 1, n do local v = select(i, ...) s = s + (tonumber(v) or 0) if i % 3 == 0 then coroutine.yield(s, ...) end end return s, ... end
for r = 1, 5 do local co = coroutine.wrap(vg) P(co(1, 2, 3, nil, "5", 6, nil)) P(co()) P(co()) end
for r = 1, 5 do local c = coroutine.wrap(function(...) local t = {...} for i = 1, 100 do t = {coroutine.yield(table.unpack(t))} t[#t + 1] = i end return "done" end) local x = c(1) for i = 1, 99 do x = select("#", c(table.unpack({}, 1, i % 7))) end P(x, c()) end
-- string building & comparisons
local function sb(n)
  local s = ""
  for i = 1, n do s = s .. i .. "," .. i / 2 .. (-i // 1 | 0) if #s > 200 then s = s:sub(-10) end end
  return s
end
for r = 1, 4 do P(sb(200)) end
-- multiple assignment, swaps, and nested tables
local function sw(n)
  local t = {1, 2, 3} local i = 1
  for k = 1, n do i, t[i] = i % 3 + 1, t[i % 3 + 1] + k % 5 t[1], t[2], t[3] = t[3], t[1], t[2] end
  return table.concat(t, " "), i
end
for r = 1, 4 do P(sw(300)) end
-- integer overflow in loops to floats
local function ov(n)
  local x, y, z = math.maxinteger - 10, 1, 1.0
  for i = 1, n do x = x + 1 y = y * 3 z = z * -1.5 y = y ~ x end
  return x, y, z
end
for r = 1, 3 do P(ov(100)) end
local function neg0(n)
  local x = 0 local c = 0
  for i = 1, n do x = x * -1.0 if 1 / x < 0 then c = c + 1 end
  if i == 77 then x = 0 end x = x + (i % 2 == 0 and -0.0 or 0.0) * 1 end
  return c, x, -x
end
for r = 1, 3 do P(neg0(150)) end
local function nan(n)
  local k, c = 0.0, 0 local v = 0 / 0
  for i = 1, n do if v ~= v then c = c + 1 end if not (v < i) and not (v >= i) then c = c + 1 end k = k - v v = -v end
  return c, k ~= k, tostring(v), string.format("%a", -v)
end
for r = 1, 3 do P(nan(101)) end
