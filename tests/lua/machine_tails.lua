-- Tail calls of library functions, and constructors.
local Point = {} Point.__index = Point
function Point.new(x, y) return setmetatable({ x = x, y = y }, Point) end
function Point:add(o) return Point.new(self.x + o.x, self.y + o.y) end
local finalised = 0
local Final = { __gc = function() finalised = finalised + 1 end }
local function final(x) return setmetatable({ x }, Final) end
local Guarded = setmetatable({}, { __metatable = "no" })
local function guarded(t) return setmetatable(t, Point) end
local function text(n) return tostring(n) end
local function part(s, i) return s:sub(i, i + 1) end
local function pick(...) return select("#", ...) end
local function kind(v) return type(v) end
local function raw(t, k) return rawget(t, k) end
local function len(s) return string.len(s) end
local function push(t, v) return table.insert(t, v) end
local function pop(t) return table.remove(t) end
local function check(v) return assert(v) end
local function bad(v) return setmetatable(v, 5) end
local function none(n) local t = {} for i = 1, n do push(t, i) end local s = 0 for i = 1, n do s = s + pop(t) end return s end
local p = Point.new(0, 0)
local words, n = {}, 0
for i = 1, 5000 do
  p = p:add(Point.new(i, -i))
  local t = final(i)
  words[i % 7] = text(i) .. part("abcdefgh", i % 6 + 1) .. kind(i) .. raw({ a = i }, "a") .. len("xyz") .. pick(i, nil, i)
  n = n + none(4) + check(i)
  local a, b = part("hello", 2)          -- two are wanted
  assert(a == "el" and b == nil)
  local all = { kind(nil), part("ab", 1), kind "x" }
  assert(#all == 3 and select("#", kind(1)) == 1)
  kind(i)                                -- none is
  assert(getmetatable(Point.new(1, 2)) == Point)
end
collectgarbage() collectgarbage()
print(p.x, p.y, n, finalised)
for i = 0, 6 do io.write(words[i], " ") end print()
print(pcall(guarded, Guarded))
print(pcall(bad, {}))
print(select(2, pcall(guarded)))
-- a class that gets a metatable after code has been made for its objects
local Child = { __index = function(_, k) return k .. "?" end }
local function make() return setmetatable({}, Child) end
local s = 0
for i = 1, 3000 do
  local c = make()
  if i == 2000 then Child.__index = { name = "given" } end
  if i == 2500 then setmetatable(Child.__index, { __index = { other = "far" } }) end
  s = s + #(c.name or "") + #(c.other or "")
end
print(s)
-- metamethods whose functions end in a constructor
local V = {} V.__index = V
local function vec(x) return setmetatable({ x = x }, V) end
V.__add = function(a, b) return vec(a.x + b.x) end
V.__unm = function(a) return vec(-a.x) end
V.__call = function(a, b) return vec(a.x * b) end
local v = vec(0)
for i = 1, 3000 do v = v + -vec(i) + vec(i)(2) end
print(v.x)
