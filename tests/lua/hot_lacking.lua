-- Fields that tables lack: nil without a metatable, whatever their shapes, and what the metatable says once there is one.
local function read(t) return t.byte end

local nodes = {}
for i = 1, 8 do nodes[i] = { left = i, right = i + 1 } end
nodes[9] = { byte = 9 }
nodes[10] = { byte = false, left = 1 }
nodes[11] = { right = 2, byte = "b" }
nodes[12] = {}

local function tree(rounds)
  local leaves, inner, others = 0, 0, 0
  for _ = 1, rounds do
    for i = 1, #nodes do
      local node = nodes[i]
      if node.byte then leaves = leaves + 1 elseif node.byte == nil then inner = inner + 1 else others = others + 1 end
    end
  end
  return leaves, inner, others
end
print("at first", tree(200))

-- Only tables that lack it.
local function none(rounds)
  local count = 0
  for i = 1, rounds do if not nodes[i % 8 + 1].missing then count = count + 1 end end
  return count
end
print("none", none(2000))

-- A table of a shape that lacked it gets a metatable.
setmetatable(nodes[3], { __index = { byte = "inherited" } })
print("inherited", tree(200))
setmetatable(nodes[4], { __index = function(_, name) return #name end })
print("called", tree(200))
print("called", none(20), read(nodes[4]))
setmetatable(nodes[5], {})
print("nothing inherited", tree(200))

-- Fields come and go.
nodes[6].byte = 6
print("added", tree(200))
nodes[6].byte = nil
nodes[9].byte = nil
print("taken away", tree(200))

-- The class gets the field later.
local class = {}
class.__index = class
local objects = {}
for i = 1, 10 do objects[i] = i % 2 == 0 and setmetatable({ n = i }, class) or { n = i } end
local function count(rounds)
  local found = 0
  for i = 1, rounds do
    local o = objects[i % 10 + 1]
    if o.next then found = found + o.next end
  end
  return found
end
print("class without", count(2000))
class.next = 1
print("class with", count(2000))
class.next = nil
print("class without", count(2000))
objects[1].next = 5
print("own", count(2000))

-- Dictionaries.
local names = {}
for i = 1, 200 do names["k" .. i] = i end
local function dictionary(rounds)
  local n = 0
  for i = 1, rounds do
    local t = i % 3 == 0 and names or nodes[i % 3 + 1]
    if t.k7 then n = n + t.k7 elseif t.left then n = n + t.left end
  end
  return n
end
print("dictionary", dictionary(3000))
names.k7 = nil
print("dictionary", dictionary(3000))
names.k7 = 70
print("dictionary", dictionary(3000))

-- Many shapes, more than are told apart.
local shapes = {}
for i = 1, 20 do shapes[i] = { ["f" .. i] = i } end
local function many(rounds)
  local n = 0
  for i = 1, rounds do
    local t = shapes[i % 20 + 1]
    n = n + (t.f3 or 0) + (t.f11 or 0) + (t.f0 or 1)
  end
  return n
end
print("many", many(4000))
shapes[5].f0 = 10
shapes[6].f3 = 100
print("many", many(4000))

-- As a condition, an operand, an argument, and where it is an error.
local function used(rounds)
  local text = ""
  for i = 1, rounds do
    local t = nodes[i % 2 + 1]
    if i % 500 == 0 then text = text .. tostring(t.none) .. type(t.nothing) .. select("#", t.a, t.b) end
    local x = t.none == t.left
    if x then text = text .. "!" end
  end
  return text
end
print("used", used(2000))
local function fails(rounds)
  for i = 1, rounds do
    local t = nodes[i % 2 + 1]
    local f = t.method
    if i == rounds then f(t) end
  end
end
print("fails", pcall(fails, 2000))
local function adds(rounds)
  local s = 0
  for i = 1, rounds do
    local t = nodes[i % 2 + 1]
    if i == rounds then s = s + t.amount else s = s + (t.amount or t.left) end
  end
  return s
end
print("adds", pcall(adds, 2000))

-- Bytes from the end of strings.
local function ends(rounds)
  local words, sum, nothing = { "abc", "x", "hello", "" }, 0, 0
  for i = 1, rounds do
    local w = words[i % 3 + 1]
    sum = sum + w:byte(-1)
    if i % 100 == 0 then
      w = words[i // 100 % 4 + 1]
      nothing = nothing + select("#", w:byte(-3)) + select("#", w:byte(0)) * 100 + select("#", w:byte(math.mininteger)) * 1000
    end
  end
  return sum, nothing
end
print("ends", ends(3000))
local function second(rounds)
  local sum = 0
  for i = 1, rounds do sum = sum + (("abc"):byte(-2) or 0) + (("x"):byte(i % 50 == 0 and -2 or -1) or 1000) end
  return sum
end
print("second", second(3000))
