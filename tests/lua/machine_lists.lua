-- Lists that constructors make: of which kind they become, what is asked of those that nobody else has, and where
-- somebody may look at them after all. The same code runs interpreted, then as machine code.
local function pair(a,b) return {a,b} end
local function trip(a) return {a, a+1, a+2} end
local function nilp(a, b) return {a, b, "x"} end
local function wrap(f, x) return {x, f(x)} end
local function strs(s) return {s, s.."!", #s} end
local function bools(x) return {x > 3, x < 3} end
local function floats(x) return {x*1.5, x/2, 0.0} end
local function mixed(x) return {x, x*1.5, true} end
local function fieldy(x) return {id=x, x, x+1, name="n"} end
local function setb(x) return {[1]=9, x, x+1} end
local function set3(x) return {[3]=9, x, x+1} end
local function long(x) return {x,x,x,x,x,x,x,x,x,x} end
local function eight(x) return {x,x,x,x,x,x,x,x+1} end
local function andor(x) return {x > 2 and 1 or 2, x > 5 and "a" or "b"} end
local function dots(...) return {...} end
local function dots2(...) return {1, ...} end
local function mk(d) if d == 0 then return {} end return {mk(d-1), mk(d-1)} end
local function cnt(t) if t[1] then return 1+cnt(t[1])+cnt(t[2]) end return 1 end
local n=0
local function add(x) n = n + (tonumber(x) or 1) end
local function sum(t) for i=1,#t do add(t[i]) end for k,v in pairs(t) do add(k) add(v) end end
for i = 1, 1200 do
  sum(pair(i, i+1)) sum(pair(i, "x")) sum(pair(i, i*0.5)) sum(pair(nil, i)) sum(pair(i, nil))
  sum(trip(i)) sum(trip(i+0.5)) sum(nilp(i, nil)) sum(nilp(nil, i)) sum(nilp(i,i))
  local w = wrap(function(x) return x+1 end, i) sum(w)
  if i % 7 == 0 then sum(wrap(function(x) return x, 2, 3 end, i)) sum(wrap(function() end, i)) end
  sum(strs("a"..i)) sum(bools(i%7)) sum(floats(i)) sum(mixed(i)) sum(fieldy(i)) sum(setb(i)) sum(set3(i)) sum(long(i)) sum(eight(i)) sum(andor(i%9))
  sum(dots(i, i+1)) sum(dots2(i, "z")) sum(dots2())
  if i % 100 == 0 then n = n + cnt(mk(6)) end
  local t = trip(i) t[4] = "q" t[2] = nil sum(t)
  local e = eight(i) e[#e+1] = 5 table.insert(e, 1, 7) table.remove(e) sum(e)
end
print(n)

do
local setmetatable, type = setmetatable, type
local V = {}
V.__index = V
local function vec(x, y, z) return setmetatable({x, y, z}, V) end
function V.__add(a, b) return vec(a[1]+b[1], a[2]+b[2], a[3]+b[3]) end
function V.__mul(a, k) return vec(a[1]*k, a[2]*k, a[3]*k) end
function V:dot(b) return self[1]*b[1] + self[2]*b[2] + self[3]*b[3] end
function V:len() return #self end
local function add(a, b) return {a[1]+b[1], a[2]+b[2]} end
local function scale(a, k) return {a[1]*k, a[2]*k} end
local function swap(p) p[1], p[2] = p[2], p[1] return p end
local function pack(...) local t = {...} return t[1], #t end
local sum = 0
local keep = {}
for i = 1, 1600 do
  local p = add({i, 2}, scale({i, i+1}, 3))
  sum = sum + p[1] * p[2] + #p
  local q = {i, i*0.5, "s"}
  q[1] = q[2]
  q[2] = i
  if q[3] ~= "s" then error("x") end
  sum = sum + q[1] + q[2] + #q
  local s = swap({i, i + 0.25})
  sum = sum + s[1] - s[2]
  local short = { i, { i + 1 } }
  sum = sum + short[2][1] - short[1]
  local v = vec(i, 1.5, 2) * 2 + vec(1, 2, 3)
  sum = sum + v:dot(v) % 1000 + v:len()
  local e = {i}
  if i % 97 == 0 then keep[#keep+1] = e; e[2] = i; e[1] = nil end
  sum = sum + (e[1] or 7) + (e[2] or 3) + (e[0] or 1)
  local a, n = pack(i, i + 1, nil)
  sum = sum + a + n
  local b = {i > 5, i < 3}
  if b[1] then sum = sum + 1 end
  if b[2] then sum = sum + 1 end
  local f = {i, name = "f", i + 1, k = i}
  sum = sum + f[1] + f[2] + f.k + #f
  f.k = f[1]
  f[2] = "x"
  if i % 50 == 0 then for k, x in pairs(f) do sum = sum + (tonumber(x) or 0) end end
  local g = {i, i}
  if i % 31 == 0 then g[1] = nil end
  sum = sum + (g[1] or -1) + #{1, 2, i}
  local h = {i, i + 1, i + 2}
  if i % 1000 == 0 then local ok, m = pcall(function() return h[1] .. {} end) sum = sum + #m end
  local w = h
  w[2] = w[1] + w[3]
  sum = sum + h[2]
  local z = {}
  sum = sum + #z
  z[#z + 1] = i
  sum = sum + z[1] + #z
  local d = {i, i}
  if i % 77 == 0 then d = setmetatable(d, {__index = function(t, k) return k end, __len = function() return 9 end}) end
  sum = sum + #d + (d[3] or 0) + d[1]
end
print(sum, #keep)
for i = 1, #keep do sum = sum + #keep[i] + (keep[i][2] or 0) end
print(sum)
end

-- A debugger has the table while its constructor is at work.
do
  local function peek(i)
    for k = 1, 250 do
      local name, value = debug.getlocal(2, k)
      if not name then break end
      if type(value) == "table" and name:find("temporary", 1, true) then
        value[3] = "put there"
        if i % 3 == 0 then value[1] = "first" end
        if i % 5 == 0 then setmetatable(value, { __newindex = rawset, __index = function() return "inherited" end }) end
        if i % 7 == 0 then value.name = "named" end
      end
    end
    return i
  end
  local met = {}
  for i = 1, 300 do
    local t = { i, peek(i) }
    local text = table.concat({ tostring(t[1]), tostring(t[2]), tostring(t[3]), tostring(t[4]), tostring(t.name), #t }, " ")
    if i % 60 < 8 then met[#met + 1] = text end
  end
  print(table.concat(met, "\n"))
end

-- Debuggers, error handlers, coroutines and closed variables find the lists that machine code has not made.
do
local function inner(t) error({ code = t[1], list = { t[2], 7 } }) end
local function outer(a, b) local p = { a, b } local q = { b, a } inner(p) return q end
local c = 0
for i = 1, 300 do
  local ok, e = pcall(outer, i, i + 1)
  c = c + e.code + e.list[1] + #e.list
end
print(c)
local seen = {}
local function look(a)
  local p = { a, a + 1 }
  local s = p[1] + p[2]
  if a % 50 == 0 then
    for k = 1, 20 do local n, v = debug.getlocal(1, k) if not n then break end if type(v) == "table" and n == "p" then seen[#seen + 1] = v[1] + #v end end
  end
  return s
end
local s = 0
for i = 1, 400 do s = s + look(i) end
print(s, table.concat(seen, " "))
debug.sethook(function() local n, v = debug.getlocal(2, 2) if n == "p" and v then v[1] = v[1] end end, "l")
for i = 1, 100 do s = s + look(i) end
debug.sethook()
print(s)
local co = coroutine.wrap(function() for i = 1, 200 do local p = { i, i * 2 } local q = { p[2], p[1] } coroutine.yield(q[1]) s = s + p[1] + q[2] end return -1 end)
for i = 1, 200 do s = s + co() end
print(s)
local function tb(i) local p = { i } if i == 250 then return debug.traceback("x") end return p[1] end
for i = 1, 250 do local v = tb(i) if type(v) == "string" then print((v:gsub("%d+", "N"):gsub("\n.*", ""))) end end
local function cl(i) local p <close> = setmetatable({ i, 2 }, { __close = function(t) s = s + t[1] end }) local q = { i, p[2] } return q[2] end
for i = 1, 300 do s = s + cl(i) end
print(s)
end
