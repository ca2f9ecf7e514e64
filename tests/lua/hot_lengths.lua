-- `#` of objects, and appending to them, while their classes get and lose metamethods.

local N = 200
local S = {}
S.__index = S
function S:push(v) self[#self + 1] = v end
function S:pop() local n = #self local v = self[n] self[n] = nil return v end
local function stack() return setmetatable({}, S) end
local function work(s, n)
  local sum = 0
  for i = 1, n do
    s:push(i); s:push(i * 2)
    sum = sum + s:pop() + #s
    if i % 3 == 0 then sum = sum + s:pop() end
  end
  return sum, #s
end
for _ = 1, 3 do print(work(stack(), N)) end

-- Kinds of elements.
local function kinds(make, v, w)
  local t = make()
  for i = 1, N do
    if i == N - 10 then v = w end
    t[#t + 1] = v
  end
  return #t, t[1], t[N - 11], t[N]
end
print(kinds(stack, 1, 2.5))
print(kinds(stack, 1.5, "s"))
print(kinds(stack, "s", 1))
print(kinds(stack, true, nil))
print(kinds(function() return setmetatable({}, {}) end, 1, {} == nil))

-- A class gets __len, and loses it.
local function changing(class, n)
  local t, sum = setmetatable({}, class), 0
  for i = 1, n do
    if i == n // 3 then class.__len = function(o) return rawlen(o) * 1000 end end
    if i == n // 2 then class.__len = nil end
    if i == n - 20 then rawset(class, "__len", function() return 7 end) end
    if i == n - 10 then rawset(class, "__len", nil) end
    if i % 2 == 0 then t[rawlen(t) + 1] = i end
    sum = sum + #t
  end
  return sum
end
print(changing({}, N), changing({ __index = S }, N))
local shared = { __name = "shared" }
print(changing(shared, N), changing(shared, N))

-- And __newindex.
local function storing(class, n)
  local t, seen = setmetatable({}, class), 0
  for i = 1, n do
    if i == n // 3 then class.__newindex = function(o, k, v) seen = seen + k if v % 2 == 0 then rawset(o, k, v) end end end
    if i == n // 2 then class.__newindex = nil end
    if i == n - 20 then class.__newindex = {} end
    t[#t + 1] = i
    if i == n - 10 then setmetatable(t, nil) end
  end
  return #t, seen, t[#t], rawlen(class.__newindex)
end
print(storing({}, N))
print(storing({ __index = S }, N))

-- Objects of several classes, strings and tables in one place.
local L = { __len = function(o) return o.n end }
local Bad = { __len = function() return "no number" end }
local list = { {}, { 1, 2 }, "abc", setmetatable({ n = 40 }, L), setmetatable({ 1 }, S), setmetatable({ 1, 2, 3 }, {}), setmetatable({}, Bad) }
local function lengths(n, upto)
  local sum = 0
  for i = 1, n do
    local l = #list[i % upto + 1]
    sum = sum + (tonumber(l) or 1000)
  end
  return sum
end
print(lengths(N, 3), lengths(N, 4), lengths(N, 6), lengths(N, 7))
list[3] = 12
print(pcall(lengths, N, 3))

-- The metatable is its own, and the object has fields, too.
local self_made = {}
self_made.__index = self_made
setmetatable(self_made, self_made)
local function both(n)
  for i = 1, n do
    self_made[#self_made + 1] = i
    self_made["f" .. i % 5] = #self_made
    if i == n - 5 then self_made.__len = function() return 0 end end
  end
  return rawlen(self_made), self_made.f1, self_made[1]
end
print(both(N))

-- Elements are taken away: the last one, others, and what is none.
local function away(make, n, which)
  local t, line = make(), ""
  for i = 1, n do
    for k = 1, i % 9 do t[#t + 1] = i * k end
    for _ = 1, i % 7 do t[which(t, i)] = nil end
    line = line:sub(-40) .. #t .. "," .. tostring(t[#t]) .. ","
  end
  local count, sum = 0, 0
  for _, v in pairs(t) do count, sum = count + 1, sum + v end
  return line, count, sum
end
local function new() return {} end
local function halves() return setmetatable({ 0.5, 1.5 }, { __index = S }) end
local function general() return { "a", "b" } and setmetatable({}, S) end
for _, make in ipairs { new, halves, general } do
  print(away(make, N, function(t) return #t end))
  print(away(make, N, function(t, i) return i < N - 20 and #t or 100000 + i end))
end
local function edge(n)
  local t, sum = {}, 0
  for i = 1, n do
    local k = #t
    t[k] = nil
    t[0] = nil
    t[-1] = nil
    if i % 4 ~= 0 then t[#t + 1] = i; t[#t + 1] = i + 0.5 end
    sum = sum + #t + (t[0] == nil and 1 or 0)
  end
  return sum > 0, next(t) ~= nil
end
print(edge(N))
local function drain(n)
  local seen = 0
  for i = 1, n do
    local t = { 1, 2, 3, 4, 5, i }
    while #t > 0 do seen = seen + t[#t]; t[#t] = nil end
    if next(t) then seen = -1000000 end
    t[1] = "again"
    seen = seen + #t
  end
  return seen
end
print(drain(N))
local function references(n)
  local t, length = {}, 0
  for i = 1, n do
    t[#t + 1] = { "v" .. i }
    t[#t + 1] = "s" .. i
    length = length + #t[#t] + #t[#t - 1][1]
    if i % 3 == 0 then t[#t] = nil; t[#t] = nil; t[#t] = nil end
    if i % 50 == 0 then collectgarbage() end
  end
  return length, #t
end
print(references(N))
