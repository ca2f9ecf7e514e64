-- Methods of objects of several classes at one place, while it is hot: classes that inherit, are changed, lose a
-- method, shadow one, have a function as __index, are dictionaries, or are exchanged.
local function class(parent)
  local c = {}
  c.__index = c
  return setmetatable(c, parent)
end

local Base = class()
function Base:name() return "base" end
function Base:cost() return 1 end
Base.weight = 10
local A = class(Base)
function A:name() return "a" end
local B = class(Base)
function B:name() return "b" end
function B:cost() return 2 end
local C = class(B)
function C:cost() return 3 end
C.weight = 30
-- A class in which fields are found by keys alone.
local D = class(Base)
for i = 1, 100 do D["method" .. i] = function() return i end end
function D:name() return "d" .. self:method7() end
-- One whose __index is a function, and one whose metatable is not itself.
local F = {}
local Fmeta = { __index = function(_, k) if k == "name" then return function() return "f" end end return Base[k] end }
local G = { name = function() return "g" end, cost = function() return 7 end, weight = 70 }
local Gmeta = { tag = true, __index = G }

local function objects()
  return {
    setmetatable({ x = 1 }, A), setmetatable({ x = 2 }, B), setmetatable({ y = 1, x = 3 }, C),
    setmetatable({ x = 4 }, D), setmetatable({ x = 5 }, Fmeta), setmetatable({ x = 6, z = 1 }, Gmeta),
    setmetatable({ x = 7 }, Base),
  }
end

local function visit(list, rounds)
  local names, cost, weight = {}, 0, 0
  for r = 1, rounds do
    for i = 1, #list do
      local o = list[i]
      if r == rounds then names[#names + 1] = o:name() end
      cost = cost + o:cost()
      weight = weight + o.weight + o.x
    end
  end
  return table.concat(names, " "), cost, weight
end

local all = objects()
print(visit(all, 200))
-- Another method in a class, and one that objects have themselves.
function A:cost() return 100 end
all[2].cost = function() return 1000 end
all[3].weight = 5
print(visit(all, 200))
-- A method goes, so the parent's is found; a class loses its __index for another one.
B.name = nil
C.__index = A
print(visit(all, 200))
-- The parent changes; a metatable is exchanged; an object loses its own.
function Base:cost() return 50 end
setmetatable(all[1], Gmeta)
all[2].cost = nil
print(visit(all, 200))
-- What is not there at all.
Base.weight = nil
C.weight, G.weight = nil, nil
print(pcall(visit, all, 3))
Base.weight = 1
setmetatable(all[7], nil)
print(pcall(visit, all, 3))
setmetatable(all[7], Base)
-- __index that is no table any more.
Gmeta.__index = function() return nil end
print(pcall(visit, all, 3))
Gmeta.__index = Base
print(visit(all, 200))
-- Stores through new classes, one after the other: more than any place can remember.
local sum = 0
for i = 1, 60 do
  local K = class(i % 2 == 0 and A or Base)
  K["only" .. i] = i
  function K:own() return self.n + i end
  local o = setmetatable({ n = i, ["f" .. i % 7] = i }, K)
  for _ = 1, 20 do sum = sum + o:own() + o:cost() end
end
print(sum)
