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

-- New objects and what they get as a metatable: plain classes, those with a finaliser or a store of their own, ones that get these
-- later, none, protected ones, and objects that have had another before.
local closed, stores = 0, 0
local function class(more)
  local c = {}
  c.__index = c
  for k, v in pairs(more or {}) do c[k] = v end
  function c.new(x, y) return setmetatable({ x = x, y = y }, c) end
  function c.make(x)
    local o = setmetatable({}, c)
    o.x = x
    o.y = x
    return o
  end
  function c.again(x, other)
    local o = setmetatable({ x = x, y = 1 }, c)
    setmetatable(o, other)
    return o
  end
  function c:sum() return (rawget(self, "x") or 0) + (rawget(self, "y") or 0) end
  return c
end
local function lives(c, n)
  local s = 0
  for i = 1, n do
    local a, b = c.new(i, 0.5), c.make(i)
    s = s + a:sum() + b:sum()
    if getmetatable(a) ~= c and getmetatable(a) ~= "mine" then s = s - 1000000 end
  end
  return s
end
local plain = class()
for _ = 1, 5 do lives(plain, 60) end
print(lives(plain, 60))
local finalised = class { __gc = function() closed = closed + 1 end }
for _ = 1, 3 do lives(finalised, 60) end
collectgarbage()
collectgarbage()
print(closed)
print(lives(finalised, 60))
local storing = class { __newindex = function(t, k, v) stores = stores + 1; rawset(t, k, v) end }
for _ = 1, 3 do lives(storing, 60) end
print(lives(storing, 60), stores)
local mine = class { __metatable = "mine" }
for _ = 1, 3 do lives(mine, 60) end
print(lives(mine, 60), pcall(mine.again, 1, plain))
plain.__newindex = function(t, k, v) stores = stores + 1; rawset(t, k, v + 1) end
print(lives(plain, 60), stores)
plain.__newindex = nil
print(lives(plain, 60), stores)
collectgarbage()
closed = 0
plain.__gc = function() closed = closed + 1 end
print(lives(plain, 60))
collectgarbage()
collectgarbage()
print(closed)
plain.__gc = nil
local function others(n)
  local s = 0
  for i = 1, n do
    local o = plain.again(i, i % 3 == 0 and storing or nil)
    s = s + (getmetatable(o) == storing and o:sum() or 0)
    o.z = i
  end
  return s, stores
end
for _ = 1, 3 do others(60) end
print(others(60))
print(pcall(setmetatable, {}, 1))
local function wrong(c, n)
  local o
  for i = 1, n do o = setmetatable({ x = i }, i == n and c or plain) end
  return o
end
for _ = 1, 3 do wrong(plain, 100) end
print(pcall(wrong, 5, 100))
print(pcall(wrong, "x", 3))
