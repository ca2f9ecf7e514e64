-- Fields of tables of several shapes at one place; fields that are nowhere, until they are.
local function class(parent)
  local c = {}
  c.__index = c
  return setmetatable(c, parent)
end

-- One place, many shapes, some of which lack the field.
local makes = {
  function(n) return { a = n } end,
  function(n) return { b = 1, a = n } end,
  function(n) return { c = 1, b = 2, a = n } end,
  function(n) return { x = 0, a = n + 0.5 } end,
  function(n) return { a = "s" .. n } end,
  function(n) return { y = n } end,
  function(n) return setmetatable({ z = n }, { __index = { a = -n } }) end,
  function(n) return setmetatable({ w = n }, { __index = function(t, k) return t.w .. k end }) end,
  function(n) local t = {} t["k" .. n] = 1 t.a = n * 2 return t end,
  function(n) return { p = 1, q = 2, a = n } end,
  function(n) return { q = 2, p = 1, a = n } end,
  function(n) return { r = 2, p = 1, a = n } end,
}
local function get(t) return t.a end
local function put(t, v) t.a = v end
for round = 1, 3 do
  for few = 1, #makes do
    local seen = {}
    for i = 1, 200 do
      local t = makes[i % few + 1](i)
      local v = get(t)
      if i > 190 then seen[#seen + 1] = tostring(v) end
      put(t, i)
      assert(rawget(t, "a") == i, i)
      if i % 7 == 0 then put(t, nil) assert(rawget(t, "a") == nil) put(t, "back") assert(t.a == "back") end
    end
    if round == 3 then print(few, table.concat(seen, " ")) end
  end
end

-- Stores under names of metamethods, to tables of several shapes, are seen by what looks for them.
local function set_index(t, f) t.__index = f end
local metas = { { __index = 1 }, { __index = 1, x = 2 }, { y = 1, __index = 3 } }
for i = 1, 300 do
  local m = metas[i % 3 + 1]
  set_index(m, { v = i })
  assert(setmetatable({}, m).v == i)
end

-- What a class lacks is looked for again as soon as it may be there.
local Base = class()
local Middle = class(Base)
local Leaf = class(Middle)
local objects = { setmetatable({}, Leaf), setmetatable({ own = 1 }, Leaf), setmetatable({ extra = false, own = 2 }, Leaf) }
local function extra(o) return o.extra end
local function count(what)
  local some, none = 0, 0
  for i = 1, 300 do
    if extra(objects[i % 3 + 1]) then some = some + 1 else none = none + 1 end
  end
  print(what, some, none)
end
count("nowhere")
Base.extra = "in the grandparent"
count("grandparent")
Base.extra = nil
count("taken away")
Middle.extra = "in the parent"
count("parent")
Middle.extra = nil
rawset(Leaf, "extra", "in the class")
count("class")
rawset(Leaf, "extra", nil)
count("taken away")
objects[1].extra = "own"
count("own")
objects[1].extra = nil
count("not own any more")
setmetatable(Base, { __index = function(_, k) return "made for " .. k end })
count("by a function")
setmetatable(Base, nil)
count("without it")
local Other = class()
Other.extra = true
setmetatable(Leaf, Other)
count("another parent")
setmetatable(Leaf, nil)
count("no parent")
Leaf.__index = nil
count("no __index")
Leaf.__index = { extra = "elsewhere" }
count("another __index")
setmetatable(objects[1], nil)
count("one without a class")
setmetatable(objects[1], Leaf)
count("with it again")

-- Optional fields of objects whose class has methods.
local Node = class()
function Node:last() local n = self while n.next do n = n.next end return n end
local first = setmetatable({ value = 0 }, Node)
for i = 1, 100 do
  local n = first:last()
  n.next = setmetatable({ value = i }, Node)
end
print(first:last().value)

-- Methods of several classes, which change while they are called.
local A, B, C = class(), class(), class()
function A:name() return "A" end
function B:name() return "B" end
function C:name() return "C" end
local things = { setmetatable({}, A), setmetatable({ x = 1 }, B), setmetatable({ y = 1 }, C), setmetatable({ x = 2 }, A) }
local out = {}
for i = 1, 400 do
  if i == 150 then function B:name() return "b" end end
  if i == 250 then A.name = nil setmetatable(A, { __index = { name = function() return "parent of A" end } }) end
  if i == 350 then setmetatable(things[3], B) end
  local name = things[i % 4 + 1]:name()
  if i % 50 < 4 then out[#out + 1] = name end
end
print(table.concat(out, " "))

-- Operators found by shape: metatables alike with other functions, and one that loses its own.
local function number(f) return setmetatable({ 1 }, { __add = f, __len = function() return 7 end }) end
local two = { number(function() return "one" end), number(function() return "other" end) }
local added = {}
for i = 1, 300 do
  if i == 200 then getmetatable(two[2]).__add = nil end
  local ok, v = pcall(function() return two[i % 2 + 1] + 1 end)
  if i % 100 < 2 then added[#added + 1] = tostring(ok and v) end
  assert(#two[i % 2 + 1] == 7)
end
print(table.concat(added, " "))
