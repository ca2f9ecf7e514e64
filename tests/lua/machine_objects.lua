-- What makes objects in hot code: constructors, fields that tables get, lists, functions and their variables; sites that meet many shapes; comparisons of anything.

local function show(...) print(...) end

local Point = {}
Point.__index = Point
function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end
function Point:add(o) return Point.new(self.x + o.x, self.y + o.y) end
Point.__eq = function(a, b) return a.x == b.x and a.y == b.y end

local function points(n)
  local p, same = Point.new(0, 0), 0
  for i = 1, n do
    p = p:add(Point.new(i, -i / 2))
    if p == Point.new(i * (i + 1) // 2, -i * (i + 1) / 4) then same = same + 1 end
  end
  return p.x, p.y, same
end
show(points(200))

-- Constructors of all kinds, nil and varying values in them.
local function constructors(n)
  local s, last = 0
  for i = 1, n do
    local v = nil
    if i % 3 == 0 then v = i elseif i % 3 == 1 then v = "t" end
    local t = {a = i, b = v, c = {i, i + 0.5, v, "x"}, [i] = i, [v or "none"] = i, i, i + 1}
    s = s + t.a + #t + t.c[1] + t.c[2] + (t[i] or 0)
    if t.b then s = s + 1 end
    if t.c[3] == "t" then s = s + 1 end
    last = t
  end
  return s, last.a, last.b, #last.c, last[1], last[2]
end
show(constructors(150))

local function lists(n)
  local s = 0
  for i = 1, n do
    local a = {i, i, i}
    local b = {i, 1.5, i}
    local c = {nil, i, nil}
    local d = {i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i}
    a[#a + 1] = i
    a[2] = "text"
    b[4] = nil
    b[2] = nil
    s = s + #a + #d + a[4] + (b[2] or 1) + (c[2] or 0) + d[20]
  end
  return s
end
show(lists(100))

-- A tree, built and given up while collections run.
local function tree(depth)
  if depth == 0 then return {} end
  return {tree(depth - 1), tree(depth - 1)}
end
local function check(t) return t[1] and 1 + check(t[1]) + check(t[2]) or 1 end
local nodes = 0
for i = 1, 12 do nodes = nodes + check(tree(i % 7)); if i % 4 == 0 then collectgarbage() end end
show(nodes)

-- Fields that tables get one by one, with and without a metatable; an alias that gets them, too; __newindex that comes later.
local function grow(n)
  local Meta, s = {}, 0
  for i = 1, n do
    local o = {}
    local holder = {o = o}
    o.a = i
    local alias = holder.o
    alias.b = o.a + 1
    o.c = alias.b + 1
    local p = setmetatable({}, Meta)
    p.a = i
    p.b = o.c
    s = s + o.a + o.b + o.c + alias.c + (p.a or 1000) + (p.b or 1000)
    if i == n - 10 then Meta.__newindex = function(t, k, v) if k == "a" then rawset(t, k, v * 2) end end end
  end
  return s
end
show(grow(100))

-- A class that changes while its methods are found.
local function classes(n)
  local A = {}; A.__index = A
  local B = setmetatable({}, {__index = A}); B.__index = B
  function A:f() return 1 end
  function A:g() return 10 end
  local objects = {setmetatable({}, A), setmetatable({x = 1}, B), setmetatable({y = 1}, A), setmetatable({x = 1, y = 2}, B), {f = function() return 7 end, g = function() return 70 end}}
  local s = 0
  for i = 1, n do
    local o = objects[i % #objects + 1]
    s = s + o:f() + o.g(o)
    if i == n // 3 then function B:f() return 100 end end
    if i == n // 2 then objects[1].f = function() return 1000 end end
    if i == 2 * n // 3 then B.f = nil; A.g = function() return 5 end end
  end
  return s
end
show(classes(300))

-- Many shapes at one site, reads and writes, fields that are nil.
local function shapes(n)
  local all = {}
  for i = 1, 12 do
    local o = {}
    for j = 1, i do o["f" .. j] = j end
    o.v = i
    all[i] = o
  end
  all[13] = setmetatable({}, {__index = {v = 13}, __newindex = function(t, k, v) rawset(t, "hidden", v) end})
  local s, nils = 0, 0
  for i = 1, n do
    local o = all[i % 13 + 1]
    s = s + o.v
    o.v = o.v + 1
    o.w = i
    if o.f7 == nil then nils = nils + 1 end
    if i % 26 == 0 then o.w = nil end
  end
  return s, nils, all[13].hidden, all[13].v, all[1].w
end
show(shapes(260))

-- Functions and the variables that they refer to.
local function closures(n)
  local fs, s = {}, 0
  for i = 1, n do
    local x, y = i, 0
    local function add(d) x = x + d; y = y + 1; return x end
    local function get() return x, y end
    add(1)
    x = x * 2
    fs[i % 5 + 1] = {add = add, get = get}
    if i > 10 then fs[(i + 3) % 5 + 1].add(i) end
    local a, b = get()
    s = s + a + b
  end
  local a, b = fs[1].get()
  local function recursive(k) return k == 0 and 0 or 1 + recursive(k - 1) end
  return s, a, b, recursive(20)
end
show(closures(120))

local function loops(n)
  local fs = {}
  for i = 1, n do
    local j = 0
    while true do
      j = j + 1
      local k = j
      fs[#fs + 1] = function() k = k + i; return k end
      if j == 2 then break end
    end
  end
  local s = 0
  for _, f in ipairs(fs) do s = s + f() + f() end
  return s, #fs
end
show(loops(80))

local function closes(n)
  local log = {}
  for i = 1, n do
    local f
    do
      local v <close> = setmetatable({}, {__close = function() log[#log + 1] = i end})
      local up = i
      f = function() up = up + 1; return up end
      f()
    end
    if f() ~= i + 2 then error("variable lost") end
  end
  return #log, log[n]
end
show(closes(60))

-- Comparisons of values of all types.
local function compares(n)
  local t, u = {}, {}
  local co = coroutine.create(print)
  local values = {1, 1.0, "1", "a" .. "b", "ab", true, false, t, u, print, co, 2^53, 2^53 + 1, 0/0, Point.new(1, 2), Point.new(1, 2)}
  local equal, unequal = 0, 0
  for i = 1, n do
    local a, b = values[i % #values + 1], values[i // #values % #values + 1]
    if a == b then equal = equal + 1 end
    if a ~= b then unequal = unequal + 1 end
  end
  return equal, unequal
end
show(compares(512))

-- Finalisers that run where an object is made, and change what the loop looks at.
local function finalised(n)
  local shared = {1, 2, 3}
  local count = 0
  local function garbage()
    setmetatable({}, {__gc = function() shared[#shared + 1] = 0; shared.field = (shared.field or 0) + 1; count = count + 1 end})
  end
  local s = 0
  for i = 1, n do
    garbage()
    local t = {a = i, b = {i}}
    t.c = shared[1]
    s = s + t.a + t.b[1] + t.c
    if i % 40 == 0 then collectgarbage() end
  end
  collectgarbage()
  return s, count == n, #shared == count + 3, shared.field == count
end
show(finalised(200))

-- Errors.
local function bad_field(n)
  local t = {}
  for i = 1, n do t[i] = {field = {v = i}} end
  t[n].field = nil
  local s = 0
  for i = 1, n do s = s + t[i].field.v end
end
show(pcall(bad_field, 90))
local function bad_method(n)
  local A = {m = function() return 1 end}
  A.__index = A
  local s = 0
  for i = 1, n do
    local o = setmetatable({i}, A)
    if i == n then A.m = nil end
    s = s + o:m()
  end
end
show(pcall(bad_method, 90))
local function bad_set(n)
  local frozen = setmetatable({}, {__newindex = function(_, k) error("no " .. k, 2) end})
  for i = 1, n do
    local o = i < n and {} or frozen
    o.name = i
  end
end
show(pcall(bad_set, 90))
local loop = {}
setmetatable(loop, {__index = loop})
local function bad_chain(n)
  local plain = {q = 1}
  for i = 1, n do
    local o = i < n and plain or loop
    local v = o.q
  end
end
show(pcall(bad_chain, 90))
