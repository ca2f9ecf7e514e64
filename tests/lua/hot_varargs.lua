-- Functions of variable arguments that are built in place of their calls: what `...` is, by number and by type, with fewer
-- arguments than parameters and with many; select; tail calls from and to them; what debug, errors, coroutines and
-- metamethods see of their frames, which lie above their extra arguments.
local select, type, unpack = select, type, table.unpack
local function count(...) return select("#", ...) end
local function last(...) return (select(-1, ...)) end
local function second(_, ...) return (select(1, ...)) end
local function nth(n, ...) return (select(n, ...)) end
local function pass(...) return ... end
local function after(a, ...) return ..., a end
local function two(...)
  local a, b = ...
  return a, b
end
local function four(p, ...)
  local a, b, c, d = ...
  return p, a, b, c, d
end
local function add(a, b, c) return (a or 0) + (b or 0) + (c or 0) end
local function forward(...) return add(...) end
local function behind(_, ...) return forward(...) end
local function around(...) return (forward(...)) + 1 end
local function counted(...) return count(...) + count(..., 1) end

local function use(rounds, x)
  local s, n, t = 0, 0, ""
  for i = 1, rounds do
    n = n + count() + count(i) + count(i, nil) + count(nil, nil, nil, i)
    s = s + last(i, x) + second(x, i) + nth(2, i, x, 3) + nth(-1, i, x, 3)
    local a, b = two(i, x)
    s = s + a + b
    local p, c, d, e, f = four(x, i)
    s = s + p + c
    if d or e or f then t = t .. "!" end
    s = s + forward(i, x) + behind(x, i) + around(i) + around(i, x, 1) + counted(i, x)
    s = s + select(2, pass(i, x, 7)) + (after(x, i))
  end
  return s, n, t
end
for _ = 1, 5 do use(50, 2); use(50, 0.5) end
print(use(20, 2))
print(use(20, 0.5))
print(pcall(use, 3, "4"))
print(select("#", use(0)))
print(pass(), pass(1), pass(nil, nil))
print(four(1), four(1, 2), four(1, 2, 3, 4, 5, 6))

-- Many arguments, none, and lists whose end is not known.
local list = {}
for i = 1, 40 do list[i] = i end
local function many(f, rounds)
  local s = 0
  for i = 1, rounds do
    s = s + f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    s = s + f(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, i)
    s = s + f(unpack(list, 1, i % 30))
    s = s + f(pass(i, i, i)) + f((pass(i, i, i)))
  end
  return s
end
for _ = 1, 4 do many(count, 60) end
print(many(count, 60))
print(many(function(...) return (select("#", ...)) * 2 end, 60))
print(many(function(a, ...) return (a or 0) + count(...) end, 60))

-- Other functions at the same call, other numbers of results.
local function results(f, rounds)
  local n, s = 0, 0
  for i = 1, rounds do
    local a, b, c = f(i, i + 1)
    s = s + (a or 0) + (b or 0) + (c or 0)
    n = n + select("#", f(i, 2, 3))
    f(i)
  end
  return n, s
end
for _, f in ipairs { pass, two, count, after, forward, function(...) return 1, ... end, function() end } do
  print(results(f, 100))
end

-- Recursion, and functions that go on with each other.
local function sum(n, ...)
  if n == 0 then return ... end
  return sum(n - 1, n, ...)
end
local function reverse(n, x, ...)
  if n == 0 then return x, ... end
  return reverse(n - 1, ..., x)
end
local function down(n, ...)
  if n == 0 then return count(...) end
  return 1 + down(n - 1, n, ...)
end
local odd
local function even(n, ...) if n == 0 then return "even", ... end return odd(n - 1, ...) end
function odd(n, ...) if n == 0 then return "odd", ... end return even(n - 1, ...) end
for _ = 1, 60 do sum(5); reverse(3, 1, 2, 3); down(6); even(7, 1, 2) end
print(sum(5))
print(sum(20, "x"))
print(reverse(2, 1, 2, 3))
print(down(6), down(50))
print(even(7, 1, nil, nil))
print(even(100000, 1))

-- What select refuses, and errors within.
local function selects(n, ...)
  local s = 0
  for i = 1, 5 do s = s + (nth(n, i, 1, 2) or 100) + select("#", ...) end
  return s
end
for _ = 1, 60 do selects(2, 1); selects(3) end
print(selects(1, nil), selects(3), selects(4), selects(-2))
print(pcall(selects, 0))
print(pcall(selects, -4))
print(pcall(selects, 1.5))
print(pcall(selects, "2"))
print(pcall(selects, {}))

local function thrower(...)
  local a, b = ...
  if b then error("thrown with " .. count(...) .. " of " .. tostring(a), 2) end
  return a
end
local function calls(x, y) local r = thrower(x, y, 3) return r end
for _ = 1, 200 do calls(1) end
print(pcall(calls, "a", true))
local function fails(...) local a, b = ... return a + b end
local function adds(a, b) local r = fails(a, b) return r end
for _ = 1, 200 do adds(1, 2) end
print(pcall(adds, 1, {}))
print(pcall(adds, 1))
print(select(2, xpcall(adds, debug.traceback, 1, nil)))

-- What debug sees.
local function seen(level)
  local info = debug.getinfo(level, "lutS")
  local names = {}
  for n = 1, 9 do
    local name, value = debug.getlocal(level, n)
    if not name then break end
    if name:sub(1, 1) ~= "(" then names[#names + 1] = name .. "=" .. tostring(value) end
  end
  for n = 1, 9 do
    local name, value = debug.getlocal(level, -n)
    if not name then break end
    names[#names + 1] = name .. "=" .. tostring(value)
  end
  return info.nparams, info.isvararg, info.istailcall, info.currentline, table.concat(names, " ")
end
local look = false
local function watched(a, ...)
  local b = ...
  if look then print(seen(2)) print(seen(3)) end
  return a, b
end
local function outer(x) local a, b = watched(x, x + 1, "z") return a, b end
local function tailing(...) return watched(...) end
local function outer2(x) local a, b = tailing(x, "y") return a, b end
for _ = 1, 200 do outer(1); outer2(2) end
look = true
print(outer(1))
print(outer2(2))
look = false
print(outer(3))

-- Coroutines that yield within, and are dropped there.
local function yields(a, ...)
  local b = coroutine.yield(count(...))
  return a, b, ...
end
local function body(n)
  local s = 0
  for i = 1, n do
    local a, b, c, d = yields(i, n, nil)
    s = s + a + (b or 0) + c + (d == nil and 1 or 0)
  end
  return s
end
for round = 1, 6 do
  local co = coroutine.wrap(body)
  local r = co(20)
  for i = 1, 20 do r = co(i) end
  print(round, r)
  local dropped = coroutine.create(body)
  for i = 1, round do coroutine.resume(dropped, 9, i) end
end

-- Metamethods and methods.
local C = {}
C.__index = C
C.__add = function(...) local a, b = ... return (type(a) == "table" and a.v or a) + (type(b) == "table" and b.v or b) end
C.__lt = function(...) return select(1, ...).v < select(2, ...).v end
C.__eq = function(...) return select("#", ...) == 2 end
C.__call = function(self, ...) return self.v + select("#", ...), ... end
C.__unm = function(...) return count(...) end
C.__len = function(...) return count(...) end
C.__concat = function(...) return "cat" .. count(...) end
function C.new(class, ...) local o = setmetatable({ v = 0 }, class) o:init(...) return o end
function C:init(...) self.v = self.v + add(...) end
function C:each(f, ...) for i = 1, 3 do f(self, i, ...) end return self.v end
function C:bump(by, ...) self.v = self.v + (by or 1) + count(...) return self end
local function objects(n)
  local s, t = 0, ""
  for i = 1, n do
    local a, b = C:new(i), C:new(i, 2, 3)
    s = s + (a + b) + (a + 1) + (2 + b) + -a + #b
    if a < b then s = s + 1 end
    if a == b then s = s + 1 end
    s = s + a(1, 2) + select(2, b(7))
    s = s + a:bump():bump(1):bump(1, 2, 3).v
    s = s + a:each(C.bump, 2, nil)
    if i == n then t = a .. b end
  end
  return s, t
end
for _ = 1, 6 do objects(40) end
print(objects(40))
local P = setmetatable({}, { __index = function(...) return count(...) end, __newindex = function(t, ...) rawset(t, ...) end })
local function proxied(n)
  local s = 0
  for i = 1, n do s = s + P.x; P[i] = i; s = s + P[i]; P[i] = nil end
  return s
end
for _ = 1, 6 do proxied(50) end
print(proxied(50))

-- Closures, upvalues and counters in such functions.
local total = 0
local function counter(...)
  total = total + count(...)
  local function get() return total end
  return get
end
local function uses(n) local g for i = 1, n do g = counter(i, i) end return g() end
for _ = 1, 5 do uses(50) end
print(uses(50))
local function collects(...)
  local t = { ... }
  local u = { n = count(...), ... }
  return #t + u.n + #u
end
local function lists(n) local s = 0 for i = 1, n do s = s + collects(i, i) + collects() + collects(i, 2, 3) end return s end
for _ = 1, 5 do lists(50) end
print(lists(50))
