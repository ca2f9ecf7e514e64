-- Lists that are objects: `table.insert`, `table.remove` and `rawset` for tables with metatables, in loops
-- that become machine code, with classes that get metamethods later.

local List = {}
List.__index = List
function List.new() return setmetatable({}, List) end
function List:push(v) table.insert(self, v) end
function List:pop() return table.remove(self) end
function List:first() return table.remove(self, 1) end

-- Elements beyond the end are asked of the class.
List[0] = "zero of the class"

local list, sum = List.new(), 0
for i = 1, 3000 do
  list:push(i)
  if i % 3 == 0 then sum = sum + list:pop() end
  if i % 50 == 0 then sum = sum + list:first() end
end
print(#list, list[1], list[#list], sum)
while #list > 0 do sum = sum + list:pop() end
print(#list, sum, list:pop(), list:first(), list[1], list[0])

-- A class gets `__newindex`: the end of its lists is asked for.
local log = {}
local function fill(l, n)
  for i = 1, n do table.insert(l, i) end
  return #l
end
print(fill(List.new(), 500))
List.__newindex = function(t, k, v) log[#log + 1] = k rawset(t, k, v * 2) end
local l = List.new()
print(fill(l, 300), l[1], l[300], #log)
List.__newindex = nil
print(fill(l, 10), l[301], l[310], #log)

-- `__len` says where the end is.
local Short = { __len = function(t) return t.n or 0 end }
local s = setmetatable({}, Short)
for i = 1, 300 do
  table.insert(s, i)
  s.n = i // 2
end
print(rawlen(s), s[1], s[2], s[150], s[151], #s)
for i = 1, 150 do s.n = 150 - i + 1 local v = table.remove(s) if i % 50 == 0 then print(i, v) end end
Short.__len = nil
print(#s == rawlen(s))

-- `__index` does not see what is there, and sees what is not.
local asked = {}
local Asks = { __index = function(t, k) asked[#asked + 1] = k return nil end }
local a = setmetatable({}, Asks)
for i = 1, 200 do table.insert(a, i) end
for i = 1, 199 do table.remove(a, 1) end
print(#a, a[1], #asked)
asked = {}
print(table.remove(a), table.remove(a), #a, table.concat(asked, " "))
asked = {}
print(table.remove(a, 0), table.remove(a, 1), table.concat(asked, " "))

-- A table that is its own class, and one whose class is a list.
local Own = {}
Own.__index = Own
setmetatable(Own, Own)
for i = 1, 300 do table.insert(Own, i) end
local heir = setmetatable({}, Own)
print(#Own, heir[300], #heir)
for i = 1, 299 do table.remove(Own) end
print(#Own, heir[1], (pcall(function() return heir[2] end)))

-- `rawset` of tables with metatables, of classes, and of metamethods.
local Guarded = { __newindex = function() error("no") end, __index = function(_, k) return "no " .. tostring(k) end }
local g = setmetatable({}, Guarded)
for i = 1, 300 do rawset(g, i, i) rawset(g, "f" .. i % 7, i) end
print(#g, g[300], g.f0, g.f6, g.f7, pcall(function() g.x = 1 end))
local Base = { value = function() return 1 end }
Base.__index = Base
local b, total = setmetatable({}, Base), 0
for i = 1, 300 do
  if i == 200 then rawset(Base, "value", function() return 10 end) end
  if i == 250 then rawset(b, "value", function() return 100 end) end
  total = total + b.value()
end
print(total)
local counts, made = 0, setmetatable({}, {})
for i = 1, 300 do
  if i == 100 then rawset(getmetatable(made), "__newindex", function(t, k, v) counts = counts + 1 end) end
  if i == 200 then rawset(getmetatable(made), "__newindex", nil) end
  table.insert(made, i)
end
print(#made, made[99], made[100], counts)

-- Errors have the names they had.
print(pcall(function() for i = 1, 300 do rawset(setmetatable({}, {}), i < 300 and i or nil, i) end end))
print(pcall(function() for i = 1, 300 do table.insert(i < 300 and setmetatable({}, {}) or i, i) end end))
local closed = setmetatable({}, { __newindex = function(_, k) error("closed at " .. k, 0) end })
print(pcall(function() for i = 1, 300 do table.insert(i < 300 and setmetatable({}, {}) or closed, i) end end))
