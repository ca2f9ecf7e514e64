-- Protected calls that fail now and then, in functions that get hot: nested, with variables to be closed, in
-- coroutines, while a hook counts.
local log = {}
local function res(n) return setmetatable({}, {__close = function(_, e) log[#log + 1] = tostring(e) .. n end}) end
local function work(i)
  local r <close> = res(i % 3)
  if i % 5 == 0 then error("five", 0) end
  if i % 7 == 0 then local x = nil; return x.y end
  if i % 11 == 0 then error({ code = i }) end
  return i, i * 2
end
local function plain(i, t)
  if i % 5 == 0 then error("five", 0) end
  if i % 7 == 0 then local x = nil; return x.y end
  if i % 11 == 0 then error({ code = i }) end
  t.n = t.n + i
  return i, t
end
local function outer(i, t)
  local ok, a, b = pcall(plain, i, t)
  if not ok then return -1, a end
  return a, b
end
local sum, errs, last = 0, {}, nil
for i = 1, 3000 do
  local t = { n = i }
  local ok, a, b = pcall(plain, i, t)
  if ok then sum = sum + a + b.n else errs[type(a)] = (errs[type(a)] or 0) + 1 last = a end
  local ok2, c, d = xpcall(plain, function(e) return { e = e, tb = debug.traceback("x", 1):match("plain") and 1 or 0 } end, i, t)
  if ok2 then sum = sum + c + d.n else errs.x = (errs.x or 0) + 1 assert(type(c) == "table") end
  local ok3 = pcall(plain, i, t)
  sum = sum + (ok3 and 1 or 0)
  pcall(plain, i, t)
  sum = sum + t.n
  local e1 = outer(i, t)
  sum = sum + e1
  local ok4, x = pcall(pcall, plain, i, t)
  assert(ok4)
  if i % 1000 == 0 then print(i, sum) end
end
print(sum, last, errs.string, errs.table, errs.x)
for i = 1, 500 do local ok, a, b = pcall(work, i) if ok then sum = sum + a + b end end
print(#log, log[100], log[#log], sum)
-- captured variables around
local fs = {}
for i = 1, 500 do
  local v = i
  local ok, a = pcall(function() v = v + 1 if i % 3 == 0 then error(v, 0) end return v end)
  fs[#fs + 1] = function() return v, ok, a end
end
local c = 0
for i, f in ipairs(fs) do local v, ok, a = f() assert(v == i + 1 and a == v and ok == (i % 3 ~= 0)) c = c + v end
print(c)
-- yields through
local co = coroutine.wrap(function()
  local s = 0
  for i = 1, 600 do
    local ok, a = pcall(function(k) if k % 4 == 0 then coroutine.yield(k) end if k % 6 == 0 then error(k) end return k end, i)
    s = s + (ok and a or 1)
  end
  return "end", s
end)
local n = 0
repeat local a, b = co() n = n + 1 until a == "end"
print(n)
-- unmade tables as results
local function pair(i) if i % 9 == 0 then error("nine", 0) end return { x = i, y = -i } end
local acc = 0
for i = 1, 2000 do
  local ok, p = pcall(pair, i)
  if ok then acc = acc + p.x - p.y else acc = acc + #p end
end
print(acc)
-- a hook while failing
local hits = 0
debug.sethook(function() hits = hits + 1 end, "", 1000)
for i = 1, 2000 do local ok, p = pcall(pair, i) if ok then acc = acc + p.x end end
debug.sethook()
print(acc, hits > 0)
-- loops in loops, while, goto
local i, k = 0, 0
while i < 3000 do
  i = i + 1
  for j = 1, 3 do
    local ok, r = pcall(plain, i * j, { n = 0 })
    if not ok then goto continue end
    k = k + r
    ::continue::
  end
end
print(k)
