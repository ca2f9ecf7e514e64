-- Constructors give tables one field after the other. What is asked once for all of them may change in
-- between: the metatable, what it has, and who looks for fields along it.
local function run(f, n)
  local last
  for i = 1, n or 400 do last = f(i) end
  return last
end

-- Plain ones, long ones, and some that end early.
local function plain(i)
  local o = {}
  o.a = i o.b = i + 1 o.c = i + 2 o.d = i + 3 o.e = i + 4 o.f = i + 5 o.g = i + 6 o.h = i + 7 o.i = i + 8
  return o
end
local o = run(plain)
print(o.a, o.e, o.i)
local function early(i)
  local o = {}
  o.a = i
  o.b = i
  if i % 3 == 0 then return o end
  o.c = i
  o.d = i
  return o
end
o = run(early)
print(o.a, o.b, o.c, o.d)
o = early(3)
print(o.a, o.b, o.c, o.d)

-- A metatable between two stores.
local log = {}
local watching = { __newindex = function(t, k, v) log[#log + 1] = k; rawset(t, k, v) end }
local quiet = {}
local mt = quiet
local function between(i)
  local o = {}
  o.a = i
  setmetatable(o, mt)
  o.b = i
  o.c = i
  return o
end
run(between)
print(#log)
mt = watching
run(between, 3)
print(table.concat(log, " "))

-- `__newindex` comes by another name of the metatable, while a constructor runs.
log, mt = {}, {}
local function arms(i)
  local o = setmetatable({}, mt)
  o.a = i
  if i == 350 then rawset(mt, "__newindex", watching.__newindex) end
  o.b = i
  o.c = i
  if i == 350 then mt.__newindex = nil end
  o.d = i
  return o
end
run(arms)
print(table.concat(log, " "))

-- It comes by a store in the same function, through what is not known to be the metatable.
log = {}
local function stores(i, where, name)
  local m = {}
  local o = setmetatable({}, m)
  o.a = i
  where = where or m
  where[name] = watching.__newindex
  o.b = i
  return o
end
run(function(i) return stores(i, i ~= 399 and {} or nil, i < 399 and "other" or "__newindex") end)
print(table.concat(log, " "))

-- A table becomes a class while it gets its fields: who has found that it lacks one hears of it.
local function becomes(i)
  local class = {}
  class.first = i
  local o = setmetatable({}, { __index = class })
  local before = o.second
  class.second = i * 2
  class.third = i * 3
  return tostring(before) .. " " .. tostring(o.second) .. " " .. tostring(o.third)
end
print(run(becomes))
local class = { first = 1 }
class.__index = class
local object = setmetatable({}, class)
local function reads(name) return object[name] end
local function gives(i, t)
  t.one = i
  local seen = object.one
  t.two = i
  local too = object.two
  t.three = i
  return tostring(seen) .. tostring(too) .. tostring(reads("three"))
end
run(function(i) return gives(i, {}) end)
print(gives(7, class), object.one, object.two, object.three)

-- Two names for one table.
local function twice(i)
  local o = {}
  local p = o
  o.a = i
  setmetatable(p, i % 50 == 0 and watching or nil)
  o.b = i
  p.c = i
  return o
end
log = {}
run(twice)
print(table.concat(log, " "))

-- In loops, by functions that are called, and with values that are nil.
local function loops(n)
  local all = {}
  for i = 1, n do
    local o = {}
    o.x = i
    o.y = i % 2 == 0 and i or nil
    o.z = i
    all[i] = o
  end
  local sum = 0
  for _, o in ipairs(all) do sum = sum + o.x + (o.y or 0) + o.z end
  return sum
end
print(loops(50), loops(500))
local Base = {}
Base.__index = Base
function Base.init(self, i) self.kind = "base"; self.n = i; self.list = { i } end
local Derived = setmetatable({}, Base)
Derived.__index = Derived
function Derived.init(self, i)
  Base.init(self, i)
  self.more = i + 1
  self.even = i % 2 == 0
end
o = run(function(i) local o = setmetatable({}, Derived); o:init(i); return o end)
print(o.kind, o.n, o.list[1], o.more, o.even, getmetatable(o) == Derived)
