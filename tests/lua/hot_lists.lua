-- Calls for all results as the last argument, and functions of several results, where they are hot: the same whether they are built in place, called, or interpreted.

local sqrt, byte, sub, select, unpack = math.sqrt, string.byte, string.sub, select, table.unpack

local function square(x) return x * x end
local function both(x) return x, -x end
local function three(a, b, c) return c, b, a end
local function none() end
local function pick(x) if x > 0 then return x else return x, x end end
local function some(...) return ... end

local function show(...) print(select("#", ...), ...) end

-- One result, as the list of another call.
local function nested(n)
  local s = 0.0
  for i = 1, n do s = s + sqrt(square(i)) + sqrt(square(square(i))) end
  return s
end
show(nested(50))

-- The count varies: a function of two results, of none.
local function count(f, x) return select("#", f(x)) end
for i = 1, 40 do count(square, i) end
show(count(both, 1), count(none), count(square, 2), count(pick, 1), count(pick, -1))
local function first_of(f, x) return square(f(x)) end
for i = 1, 40 do first_of(square, i) end
show(first_of(both, 3), pcall(first_of, none, 3))

-- Several results into several variables, more and fewer than there are.
local function swap(n)
  local a, b, c, d = 1, 2, 3, "d"
  for _ = 1, n do
    a, b, c = three(a, b, c)
    local x, y, z = both(b)
    assert(x == -y and z == nil)
    local only = three(a, b, c)
    assert(only == c)
    d = (both(d == "d" and 1 or 2)) == 1 and "e" or "d"
  end
  return a, b, c, d
end
show(swap(41))

-- Results in tables and behind others.
local function gathered(n)
  local t
  for i = 1, n do t = { both(i), both(i + 1) } end
  return #t, t[1], t[2], t[3]
end
show(gathered(40))
local function behind(n)
  local text
  for i = 1, n do text = table.concat({ i, select(2, three(i, i + 1, i + 2)) }, " ") end
  return text
end
show(behind(40))

-- Functions of the library that give one value, or not.
local function bytes(s, n)
  local sum = 0
  for i = 1, n do sum = sum + square(byte(s, i % #s + 1)) + #tostring(sub(s, i % 3 + 1)) end
  return sum
end
show(bytes("hello", 60))
local function opened(f, s, n)
  local r
  for i = 1, n do r = select("#", f(s, 1, i)) end
  return r
end
show(opened(byte, "hello there", 11), opened(sub, "hello there", 11), opened(byte, "", 3))
show(pcall(function() for i = 1, 60 do if i < 50 then square(byte("a")) else square(byte("")) end end end))

-- Lists through tail calls, and of methods.
local C = {}
C.__index = C
function C:dot(o) return self.x * o.x + self.y * o.y end
function C:unit() return sqrt(self:dot(self)) end
function C:twice() return square(self:unit()) end
function C:both() return both(self:unit()) end
local function methods(n)
  local s = 0.0
  for i = 1, n do
    local o = setmetatable({ x = i, y = i + 0.5 }, C)
    local p, q = o:both()
    s = s + o:twice() + sqrt(o:unit()) + p + q
  end
  return string.format("%.6f", s)
end
show(methods(60))

-- The values in a list are of other types later on.
local function anything(f, x) return tostring(f(x)) end
local odd = setmetatable({}, { __tostring = function() return "odd" end })
for i = 1, 60 do anything(some, i) end
show(anything(some, 1.5), anything(some, "s"), anything(some, odd), anything(some, nil), pcall(anything, function() end))

-- An error in the midst of a list names what it should.
local function fails(t, n)
  local s = 0
  for i = 1, n do s = s + sqrt(square(t[i])) end
  return s
end
local numbers = {}
for i = 1, 60 do numbers[i] = i end
show(fails(numbers, 60))
numbers[57] = "x"
show(pcall(fails, numbers, 60))
numbers[57] = nil
show(pcall(fails, numbers, 60))

-- A collection in the midst of one.
local function strings(n)
  local t = {}
  for i = 1, n do t[#t + 1] = sub(tostring(square(i)) .. "!", 1, -1) end
  return #t, t[1], t[n]
end
collectgarbage("setpause", 100)
show(strings(300))
