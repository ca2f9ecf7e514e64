-- What `control/` builds programs from, behind `prelude.lua`.
local total, turn, word, barred = 0, 0, "w", false
-- A number for any value, a small one for a number.
local function num(v)
  local kind = math.type(v)
  if kind == "integer" then return v % 997 end
  if kind == "float" then return v - v == 0 and v % 997 or 5 end
  return v == nil and 1 or 2
end
-- A string or a number for any value, never an address.
local function said(v)
  local kind = type(v)
  if kind == "string" then return v end
  if kind == "number" then return v == v and v or "nan" end
  return kind
end
local function long(v) return #rawtostring(said(v)) end
local function cut(s) return s:sub(-16) end
local function note(...)
  for k = 1, select("#", ...) do total = (total * 3 + num((select(k, ...)))) % 9973 end
  return total
end
-- Arguments that are passed on.
local function pass(...) return ... end
local function turned(a, ...) return ..., a end
local function first(a) return a end
local function rest(_, ...) return ... end
local function behind(...) return pass(1, ...) end
local function nested(...) local a, b = ... return b, a, behind(...) end
local function size(...) return select("#", ...) end
local function nth(n, ...) return (select(n, ...)) end
local function packed(...) local t = table.pack(...) return table.unpack(t, 1, t.n) end
local function apply(f, ...) return f(...) end
local function sum(...) local s = 0 for _, v in ipairs{...} do s = s + num(v) end return s end
local function blame(v, level) error(v, level) end
local function own(...) if select("#", ...) > 1 then return own(select(2, ...)) end return ... end
-- Lists of three elements, or more, which have fields.
local List = {} List.__index = List
function List:get(k) return self[k] or 0 end
function List:add(v) self.x = (self.x + num(v)) % 997 return self end
function List.__call(self, v) return num(v) + self.x end
local function list(t)
  t.x, t.f, t.name = t.x or 7, t.f or num, t.name or "list"
  return setmetatable(t, List)
end
local T = {list{1, 2, 3}, list{4, 5.5, 6, x = 2}, list{0, 1, 0, 1, name = "four"}}
local F = {f = num, g = function(v) return (turn + num(v)) % 997 end}
-- Functions that have left where they were made.
local kept, at = {}, 0
local function keep(f) at = at % 6 + 1 kept[at] = f return at end
local function again(k, ...)
  local f = kept[k]
  if f then return f(...) end
  return 0
end
-- Yields where it can.
local function maybe(v)
  if not barred and coroutine.isyieldable() then return (coroutine.yield(v)) end
  return v
end
local function bar(f, ...)
  local before = barred
  barred = true
  local ok, e = f(...)
  barred = before
  return ok, e
end
local function shut(co) return bar(coroutine.close, co) end
local Closer = {__close = function(o, e) note(o[1], e == nil and 1 or long(e)) end}
local Slow = {__close = function(o, e) note(maybe(o[1]), e) end}
local Failing = {__close = function(o, e) if e == nil then error("closed", 0) end end}
local function closer(k) return setmetatable({k}, Closer) end
local function slow(k) return setmetatable({k}, Slow) end
local function failing(k) return setmetatable({k}, Failing) end
local function closing(f) return setmetatable({}, {__close = f}) end
-- Objects whose metamethods yield.
local Y = {}
for _, event in ipairs{"add", "sub", "mul", "idiv", "unm", "band", "concat", "len"} do
  Y["__" .. event] = function(a, b) return num(maybe(event)) + (a == b and 1 or 0) end
end
function Y.__index(o, k) return maybe(k) end
function Y.__newindex(o, k, v) rawset(o, 1, maybe(v)) end
function Y.__call(o, ...) return maybe(size(...)), ... end
function Y.__eq(a, b) return maybe(rawequal(a, b)) end
function Y.__lt(a, b) return maybe(true) end
function Y.__le(a, b) return maybe(nil) end
local y1, y2 = setmetatable({1}, Y), setmetatable({2}, Y)
-- Iterators.
local function step(n, k) if k < n then return k + 1, k * 2 end end
local function upto(n)
  local k = 0
  return function() k = k + 1 if k <= n then return k end end
end
local function closes(n) return step, n, 0, closer(n) end
local function flat(v) return type(v) == "table" and "t" or v end
local function mix(sum, ...)
  for k = 1, select("#", ...) do
    local v = select(k, ...)
    local kind = math.type(v) or type(v)
    local word = kind
    if kind == "float" then word = v ~= v and "nan" or string.format("%.14gf", v)
    elseif kind == "integer" or kind == "string" or kind == "boolean" then word = rawtostring(v)
    elseif kind == "table" then word = "t" .. mix(0, flat(rawget(v, 1)), flat(rawget(v, 2)), flat(rawget(v, 3)), flat(rawget(v, "x")))
    end
    for j = 1, #word do sum = (sum * 31 + word:byte(j)) % 1000000007 end
  end
  return sum
end
local function ready(i) turn, fuel = i, 250 end
-- Ways to run a function `times` times, with the number of the call first.
local way = {}
function way.plain(f, times, ...)
  local sum = 0
  for i = 1, times do ready(i) sum = mix(sum, pcall(f, i, ...)) end
  return sum
end
function way.handled(f, times, ...)
  local sum = 0
  local function handler(e) total = (total + 1) % 9973 return e, said(e) end
  for i = 1, times do ready(i) sum = mix(sum, xpcall(f, handler, i, ...)) end
  return sum
end
function way.resumed(f, times, ...)
  local sum = 0
  for i = 1, times do
    ready(i)
    local co = coroutine.create(f)
    sum = mix(sum, coroutine.resume(co, i, ...))
    for k = 1, i % 11 do sum = mix(sum, coroutine.resume(co, k, "r", i)) end
    sum = mix(sum, coroutine.status(co), shut(co))
  end
  return sum
end
function way.wrapped(f, times, ...)
  local sum = 0
  for i = 1, times do
    ready(i)
    local n = 0
    sum = mix(sum, pcall(function(...)
      for a, b in coroutine.wrap(f), i, ... do
        n = n + 1
        sum = mix(sum, a, b)
        if n > 7 then return "enough" end
      end
    end, ...))
  end
  return sum
end
function way.iterator(f, times, ...)
  local sum, n = 0, 0
  for i = 1, times do
    ready(i)
    sum = mix(sum, pcall(function(...)
      for a, b, c in f, i, (...) do
        n = n + 1
        sum = mix(sum, a, b, c)
        if n % 4 == 0 then break end
      end
    end, ...))
  end
  return sum
end
local function often(kind, f, times, ...) show(kind, way[kind](f, times, ...), total, word) end
local function once(f, ...)
  ready(0)
  show("once", pcall(f, ...))
  show(total, word, mix(0, table.unpack(T)))
end
local function begin(f, ...)
  ready(0)
  local co = coroutine.create(f)
  show("begin", coroutine.resume(co, ...))
  for k = 1, 5 do show(k, coroutine.resume(co, k)) end
  show(total, word, shut(co))
end
