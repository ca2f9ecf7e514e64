-- What is known of the value of a field is known when it is loaded again, until another may be there.

local function round(name, f, ...)
  local last
  for _ = 1, 60 do last = table.pack(f(...)) end
  print(name, table.unpack(last, 1, last.n))
end

local Box = {}
Box.__index = Box
local function box(v) return setmetatable({ v = v, w = v, n = 0 }, Box) end
function Box:swap(i, j)
  local t = self.v[i]
  self.v[i] = self.v[j]
  self.v[j] = t
end
function Box:get(i) return self.v[i] end
function Box:add(n) self.n = self.n + n return self end

-- Elements of the same field, of arrays of each kind.
round("swap", function()
  local ints, floats, anything = box { 1, 2, 3 }, box { 1.5, 2.5, 3.5 }, box { "a", 2, {} }
  for i = 1, 4 do
    ints:swap(1, 3) floats:swap(2, 3) anything:swap(1, 2)
  end
  ints:swap(1, 2) floats:swap(1, 2) anything:swap(1, 2)
  return ints.v[1], ints.v[2], ints.v[3], floats.v[1], floats.v[2], floats.v[3], anything.v[1], anything.v[2]
end)

-- The field gets another table in between: of the same kind, of another one, longer, shorter.
local function replaced(b, other, i)
  local first = b.v[i]
  b.v = other
  local second = b.v[i]
  b.v[i] = first
  return first, second, b.v[i], #b.v
end
round("replaced", function()
  local a, b, c, d = replaced(box { 1, 2, 3 }, { 4, 5, 6, 7 }, 2)
  return a, b, c, d
end)
print("other kind", replaced(box { 1, 2, 3 }, { 4.5, 5.5, 6.5 }, 2))
print("mixed", replaced(box { 1, 2, 3 }, { "x", "y" }, 2))
print("shorter", replaced(box { 1, 2, 3 }, { 9 }, 2))

-- The same table by another name, stored into by the same name, by another, and by a table of another shape.
local function aliased(a, b, other)
  local x = a.v[1]
  b.v = other
  return x, a.v[1], b.v[1]
end
round("not the same", function() return aliased(box { 1 }, box { 2 }, { 3 }) end)
local one = box { 1 }
print("the same", aliased(one, one, { 2 }))
print("the same, of another kind", aliased(one, one, { 2.5 }))
print("another shape", aliased(one, { v = { 7 } }, { "s" }))

-- The array becomes one of another kind under the name of the other field that has it.
local function both(b, x)
  local first = b.v[1]
  b.w[1] = x
  return first, b.v[1], b.w[1]
end
round("both fields", function() return both(box { 1, 2 }, 5) end)
print("another kind", both(box { 1, 2 }, 5.5))
print("any kind", both(box { 1, 2 }, "s"))
print("nothing", both(box { 1, 2 }, nil))

-- Something that is called stores into the field.
local sink
local function quiet(b) sink = b end
local function replaces(b) b.v = { "new" } end
local function calls(b, f)
  local x = b.v[1]
  f(b)
  return x, b.v[1]
end
round("called", calls, box { 1 }, quiet)
print("called, which replaces", calls(box { 1 }, replaces))

-- The value is where the table was.
local function along(list)
  local count = 0
  while list do
    count = count + list.n
    list = list.next
  end
  return count
end
local list
for i = 1, 100 do list = { n = i, next = list } end
round("list", along, list)
local function deeper(t) t = t.v t = t.v return t.v[1], t.n end
round("deeper", deeper, { v = { v = { v = { 3 }, n = 1 }, n = 2 }, n = 3 })

-- One way stores, the other does not.
local function perhaps(b, other)
  local x = b.v[1]
  if other then b.v = other end
  b.v[1] = b.v[1] + 1
  return x, b.v[1]
end
round("perhaps not", function() return perhaps(box { 1 }) end)
round("perhaps", function() return perhaps(box { 1 }, { 5 }) end)
print("perhaps a float", perhaps(box { 1 }, { 5.5 }))

-- Fields that are functions.
local Acts = { n = 0 }
function Acts.one(self) self.n = self.n + 1 return self.n end
local function twice(t) return t:one() + t:one() end
round("functions", function() Acts.n = 0 return twice(Acts) end)
local function changes(t, f)
  local a = t:one()
  t.one = f
  return a, t:one()
end
round("the same function", function() Acts.n = 0 return changes(Acts, Acts.one) end)
local kept = Acts.one
print("another function", changes(Acts, function() return "other" end))
Acts.one = kept

-- In loops, where the field changes in each round.
local function loop(b, others)
  local sum = 0
  for i = 1, #others do
    sum = sum + b.v[1]
    b.v = others[i]
    sum = sum + b.v[1] * 2
    b.v[1] = i
    sum = sum + b.v[1]
  end
  return sum
end
round("loop", function()
  local others = {}
  for i = 1, 30 do others[i] = { i } end
  return loop(box { 1 }, others)
end)
print("loop, of another kind", loop(box { 1 }, { { 1 }, { 2.5 }, { 3 }, { 4, "x" } }))
print("loop, not a number", (pcall(loop, box { 1 }, { { 1 }, { {} } })))
