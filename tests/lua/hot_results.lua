-- Functions that are called, not built in place of their calls, give fewer or more results than are wanted.

local N = 200

-- A loop keeps them from being built in place.
local function none(n) for i = 1, n do n = n - 1 end end
local function one(n) local s = 0 for i = 1, n do s = s + i end return s end
local function two(n) local s = 0 for i = 1, n do s = s + i end return s, "b" .. n end
local function three(n) local s, t = 0, { n } for i = 1, n do s = s + i end return t, s, n > 2 end
local function kinds(n) local s = 0 for i = 1, n do if i % 2 == 0 then s = s + 0.5 else s = s + 1 end end return s, n, s end
local function some(n) for i = 1, n do if i == 3 then return i, i + 1, i + 2, i + 3 end end return n end
local function extra(...) local s = 0 for i = 1, select("#", ...) do s = s + select(i, ...) end return s, select("#", ...), "x" end

local function text(...)
  local all = { ... }
  for i = 1, select("#", ...) do
    local v = all[i]
    all[i] = type(v) == "table" and "t" .. v[1] or tostring(v)
  end
  return table.concat(all, ",", 1, select("#", ...))
end

local function wanted(f, n)
  local before, line = "before", ""
  for i = 1, n do
    local k = i % 5
    f(k)
    local a = f(k)
    local b, c = f(k)
    local d, e, g = f(k)
    local h, j, l, m, o, p = f(k)
    local after = "after"
    line = text(a, b, c, d, e, g, h, j, l, m, o, p, before, after) .. " " .. text(f(k)) .. " " .. text((f(k)))
    line = line .. " " .. select("#", f(k)) .. " " .. #{ f(k) } .. " " .. text(f(k), f(k))
  end
  return line
end
for _, f in ipairs { none, one, two, three, kinds, some, extra } do
  print(wanted(f, N))
  print(wanted(f, N + 3))
end

-- Their callers are machine code that goes on with what it knew.
local function keeps(f, n)
  local x, y, sum = 1, 2.5, 0
  for i = 1, n do
    local r = f(i % 4)
    x = x + 1
    local s, t, u, v = f(i % 4)
    y = y + 0.5
    sum = sum + (tonumber(r) or 1) + (tonumber(s) or 1) + (tonumber(u) or 3) + (v == nil and 1 or 0)
    f(i % 4)
    sum = sum + x * y
  end
  return x, y, sum
end
for _, f in ipairs { none, one, two, kinds, some, extra } do print(keeps(f, N)) end

-- Tail calls give what the last one gives.
local function last(n) if n % 2 == 0 then return two(n) end return three(n) end
print(wanted(last, N), wanted(last, N + 1))

-- So do recursion and methods.
local function down(n) if n == 0 then return 0, "end" end local a, b, c = down(n - 1) return a + 1, b, c end
local C = {}
C.__index = C
function C:both(n) local s = self.n for i = 1, n do s = s + i end return s, self end
local function methods(n)
  local o, sum = setmetatable({ n = 1 }, C), 0
  for i = 1, n do
    local a = o:both(i % 3)
    local b, c, d = o:both(i % 3)
    sum = sum + a + b + (c == o and 1 or 0) + (d == nil and 1 or 0) + (down(i % 6))
    o:both(1)
  end
  return sum
end
print(methods(N))
