-- Tables that machine code need not make: nobody may be able to tell.
local V = {}
V.__index = V
local function vec(x, y) return setmetatable({ x = x, y = y }, V) end
V.__add = function(a, b) return vec(a.x + b.x, a.y + b.y) end
V.__sub = function(a, b) return vec(a.x - b.x, a.y - b.y) end
V.__mul = function(a, k) return vec(a.x * k, a.y * k) end
V.__unm = function(a) return vec(-a.x, -a.y) end
V.__lt = function(a, b) return a.x < b.x end
V.__eq = function(a, b) return a.x == b.x and a.y == b.y end
function V:dot(b) return self.x * b.x + self.y * b.y end
function V:flip() return vec(self.y, self.x) end

local function arithmetic(n)
  local s, last = 0
  for i = 1, n do
    local v = (vec(i, 2) + vec(1, 1) * 3):flip()
    s = s + v:dot(v) + (-v).x
    if v < vec(4, 0) then s = s + 1 end
    if v == vec(5, i + 3) then s = s + 2 end
    if i % 7 == 0 then last = v end
  end
  return s, last.x, last.y, getmetatable(last) == V
end
print(arithmetic(200))

-- Ints and floats, and what is neither.
local function kinds(n)
  local out = {}
  for i = 1, n do
    local x = i % 3 == 0 and 1.5 or i % 5 == 0 and "7" or i
    local p = { a = x, b = i }
    local q = { a = p.a, b = p.b, c = p }
    if i % 10 == 0 then out[#out + 1] = tostring(q.a) .. ":" .. tostring(q.c.b) .. type(q.c) end
  end
  return table.concat(out, " ")
end
print(kinds(60))

-- One table in several variables stays one.
local function aliases(n)
  local same, sum = 0, 0
  for i = 1, n do
    local p = { x = i }
    local q = p
    q.x = q.x + 1
    if i % 11 == 0 then
      local held = { p, q }
      if held[1] == held[2] and rawequal(p, q) then same = same + 1 end
    end
    sum = sum + p.x
  end
  return same, sum
end
print(aliases(100))

-- Fields come, change and go.
local function shapes(n)
  local s = ""
  for i = 1, n do
    local t = {}
    t.a = i
    t.b = i % 2 == 0 and "e" or nil
    t.c = t.a * 2
    t.a = nil
    if i % 20 == 0 then
      local keys = {}
      for k, v in pairs(t) do keys[#keys + 1] = k .. tostring(v) end
      table.sort(keys)
      s = s .. table.concat(keys, ",") .. ";"
    end
  end
  return s
end
print(shapes(80))

-- Ways that meet: another one, or none.
local function meets(n)
  local s = 0
  for i = 1, n do
    local p = { x = i, y = 1 }
    if i % 4 == 0 then p = { x = -i, y = 2 } elseif i % 9 == 0 then p = nil end
    if p then s = s + p.x * p.y else s = s + 1000 end
    local q
    if i % 2 == 0 then q = { x = 1 } end
    s = s + (q and q.x or 5)
  end
  return s
end
print(meets(200))

-- Functions may look at variables.
local function captured(n)
  local fs = {}
  for i = 1, n do
    local p = { x = i }
    local q = { x = p.x }
    if i % 25 == 0 then fs[#fs + 1] = function() p.x = p.x + 1 return p.x end end
    q.x = q.x + p.x
  end
  local s = 0
  for _, f in ipairs(fs) do f() s = s + f() end
  return s, #fs
end
print(captured(100))

-- What a metatable asks for.
local log = {}
local Loud = {}
Loud.__index = function(t, k) return k .. "?" end
Loud.__newindex = function(t, k, v) rawset(t, k, v * 2) end
local function asks(n)
  local s = ""
  for i = 1, n do
    local t = setmetatable({ x = i }, Loud)
    t.y = i
    if i % 30 == 0 then s = s .. t.x .. t.y .. t.z .. " " end
  end
  return s
end
print(asks(90))
local Locked = { __metatable = "locked" }
print(pcall(function()
  for i = 1, 50 do
    local t = setmetatable({ x = i }, Locked)
    if i == 40 then setmetatable(t, {}) end
  end
end))

-- The class changes while objects are under way.
local function changes(n)
  local C = { f = function(o) return o.x end }
  C.__index = C
  local s = 0
  for i = 1, n do
    local o = setmetatable({ x = i }, C)
    if i == n // 2 then C.f = function(p) return -p.x end end
    if i == n - 5 then C.__index = { f = function() return 1000 end } end
    s = s + o:f()
  end
  return s
end
print(changes(120))

-- Errors, and what their handlers see.
local function fails(n)
  local count, seen = 0
  for i = 1, n do
    local p = { x = i, name = "p" .. i }
    local ok, err = pcall(function(q)
      if q.x % 13 == 0 then error(q) end
      return q.x
    end, p)
    if not ok then
      count = count + (err == p and 1 or 100)
      seen = err.name
    end
  end
  return count, seen
end
print(fails(60))
local function deep(n)
  for i = 1, n do
    local a = { x = i }
    local b = { y = a.x }
    if i == n then local c = a.x + b.missing end
  end
end
print(select(2, pcall(deep, 50)))

-- Coroutines that are left while there are some.
local function yields()
  local co = coroutine.wrap(function(n)
    for i = 1, n do
      local p = { x = i }
      local q = { x = p.x + 1 }
      if i % 10 == 0 then coroutine.yield(p.x + q.x) end
      q.x = q.x + p.x
      if q.x ~= 2 * i + 1 then error("lost") end
    end
    return "end"
  end)
  local out = {}
  for i = 1, 11 do out[i] = co(100) end
  return table.concat(out, " ")
end
print(yields())

-- Several results, arguments of all kinds, calls at the end.
local function two(a, b) return { a = a }, { b = b }, a + b end
local function last(o) return o.a end
local function pass(o, ...) return last({ a = o.a + select("#", ...) }) end
local function passes(n)
  local s = 0
  for i = 1, n do
    local p, q, sum = two(i, i + 1)
    s = s + p.a + q.b + sum + pass({ a = 1 }, p, q)
  end
  return s
end
print(passes(100))

-- Collections while there are some.
local function collects(n)
  local keep = {}
  for i = 1, n do
    local name = "name" .. i
    local p = { name = name, list = { i } }
    local q = { of = p, n = { i + 1 } }
    if i % 50 == 0 then collectgarbage() end
    if q.of.name ~= name or q.of.list[1] ~= i or q.n[1] ~= i + 1 then error("lost " .. i) end
    if i % 100 == 0 then keep[#keep + 1] = q end
  end
  local s = ""
  for _, q in ipairs(keep) do s = s .. q.of.name .. q.of.list[1] .. q.n[1] .. " " end
  return s
end
print(collects(300))

-- A weak table knows when one is gone; a finaliser is one that is made.
local weak = setmetatable({}, { __mode = "v" })
local finalised = 0
local function mortal(n)
  for i = 1, n do
    local p = { x = i }
    weak[1] = p
    local g = setmetatable({ x = i }, { __gc = function() finalised = finalised + 1 end })
    if weak[1].x ~= i or g.x ~= i then error("lost") end
  end
end
mortal(60)
collectgarbage()
collectgarbage()
print(weak[1], finalised)

-- Several variables have one table, and ways that meet agree on some of them alone.
local function shared(n)
  local s = 0
  for i = 1, n do
    local p = { x = i, y = 1 }
    local q, r = p, p
    if i % 3 == 0 then r = nil elseif i % 5 == 0 then q = { x = 2, y = 2 } end
    p.x = p.x + 1
    s = s + p.x + q.x + (r and r.y or 7)
    local a, b = { v = i }, nil
    if i % 2 == 0 then b = a end
    a.v = a.v + 1
    if b and b.v ~= i + 1 or b and b ~= a then error("two") end
    s = s + a.v + (b and b.v or 0)
  end
  return s
end
print(shared(300))
