-- Objects each of which has a metatable of its own: what is remembered of the class of one holds for another only as
-- long as that has the same class, and the class is as it was.

local Base = {}
function Base:kind() return "base" end
function Base:twice() return self.x * 2 end

local A = setmetatable({}, { __index = Base })
A.tag = "A"
function A.new(x) return setmetatable({ x = x }, { __index = A }) end
function A:kind() return "a" end

local B = setmetatable({}, { __index = Base })
B.tag = "B"
function B.new(x) return setmetatable({ x = x }, { __index = B }) end

-- Many objects, each looked at once, and then all again.
local function count(objects)
  local sum, kinds = 0, {}
  for i = 1, #objects do
    local o = objects[i]
    sum = sum + o:twice()
    local kind = o:kind() .. o.tag .. tostring(o.missing)
    kinds[kind] = (kinds[kind] or 0) + 1
  end
  local names = {}
  for name, n in pairs(kinds) do names[#names + 1] = name .. "=" .. n end
  table.sort(names)
  return sum, table.concat(names, " ")
end

local objects = {}
for i = 1, 60 do objects[i] = (i % 3 == 0 and B or A).new(i) end
for _ = 1, 3 do print(count(objects)) end

-- One object gets another class by its own metatable; nothing tells the others.
getmetatable(objects[7]).__index = B
getmetatable(objects[8]).__index = Base
objects[8].tag = "own"
print(count(objects))
getmetatable(objects[7]).__index = function(o, name) return name == "x" and 1 or B[name] end
print(count(objects))
getmetatable(objects[7]).__index = nil
print(pcall(count, objects))
getmetatable(objects[7]).__index = A
print(count(objects))

-- The class changes: a method is another, comes, goes; a field is missing no longer.
function A:kind() return "A2" end
print(count(objects))
function B:kind() return "b" end
print(count(objects))
B.kind = nil
print(count(objects))
Base.missing = "there"
print(count(objects))
Base.missing = nil
A.missing = false
print(count(objects))
A.missing = nil
print(count(objects))

-- The chain changes behind the class.
local Other = { kind = function() return "other" end, twice = function(o) return -o.x end }
getmetatable(B).__index = Other
print(count(objects))
setmetatable(B, nil)
print(pcall(count, objects))
setmetatable(B, { __index = Base })
print(count(objects))

-- Objects come and go, so metatables lie where others have been.
local total = 0
for round = 1, 40 do
  local some = {}
  for i = 1, 50 do
    local class = (i + round) % 2 == 0 and A or B
    some[i] = setmetatable({ x = i }, { __index = class })
  end
  for i = 1, 50 do
    local o = some[i]
    total = total + o:twice() + #o:kind() + #o.tag
  end
  if round % 10 == 0 then collectgarbage() end
end
print(total)

-- A metatable that is of many objects, met first as if it were of one.
local shared = { __index = A }
local many = {}
for i = 1, 30 do many[i] = setmetatable({ x = i }, shared) end
for _ = 1, 2 do print(count(many)) end
shared.__index = B
print(count(many))
shared.__index = { twice = function() return 0 end, kind = function() return "none" end, tag = "-" }
print(count(many))

-- An object has a field itself that was nil, and its class has one as well.
local function fields(o) return tostring(o.a) .. tostring(o.b) end
local C = { a = 1 }
local list = {}
for i = 1, 20 do list[i] = setmetatable({ a = nil, b = i % 2 == 0 and i or nil, c = i }, { __index = C }) end
local function all()
  local out = {}
  for i = 1, #list do out[i] = fields(list[i]) end
  return table.concat(out, " ")
end
print(all())
list[3].a = "own"
list[4].b = nil
print(all())
C.b = "class"
print(all())
C.a = nil
print(all())
list[3].a = nil
C.a = 2
print(all())
