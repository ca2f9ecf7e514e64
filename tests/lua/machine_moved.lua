-- Functions of variable arguments that are built in place of a call, of which the recording has seen all but the beginning: their frames have moved above the arguments already. (Machine code has to be left now and then; which calls that is depends on the loops' rounds.)
local source = [==[
local rawtostring = tostring
local function tostring(v)
  return (rawtostring(v):gsub("0x%x%x%x%x%x+", "ADDR"))
end
local fuel = 6000
local function tick()
  fuel = fuel - 1
  if fuel < 0 then error("out of fuel", 0) end
end
local booleans = {[true] = "true", [false] = "false"}
local function as_key(v, twin)
  if ({[twin] = "found"})[v] ~= "found" or ({[v] = "found"})[twin] ~= "found" then return "NO KEY " end
  return ""
end
local function text(v, depth)
  local kind = math.type(v)
  if kind == "float" then
    if v ~= v then return "nan" end
    local key = v - v == 0 and as_key(v, tonumber(string.format("%a", v))) or ""
    return key .. string.format("%.17g", v) .. (v == math.floor(v) and v > -1e15 and v < 1e15 and ".0" or "")
  elseif kind == "integer" then
    local digits = string.format("%d", v)
    return as_key(v, v == math.mininteger and v or math.tointeger(tonumber(digits))) .. digits
  elseif type(v) == "string" then
    return as_key(v, table.concat{v:sub(1, 1), v:sub(2)}) .. ((#v > 200) and string.format("%q#%d", v:sub(1, 200), #v) or string.format("%q", v))
  elseif type(v) == "table" then
    if depth > 3 then return "{...}" end
    local items, n = {}, 0
    for k, x in next, v do
      n = n + 1
      items[n] = text(k, 9) .. "=" .. text(x, depth + 1)
    end
    table.sort(items)
    return "{" .. table.concat(items, ",", 1, n < 60 and n or 60) .. "}"
  elseif type(v) == "thread" then return "thread:" .. coroutine.status(v)
  elseif v == nil then return "nil"
  elseif type(v) == "boolean" then return booleans[v] or "NO KEY"
  end
  return type(v)
end
local function show(...)
  local out = table.pack(...)
  for i = 1, out.n do out[i] = text(out[i], 1) end
  print(table.concat(out, " ", 1, out.n))
end
local function check(f, ...)
  if fuel % 2 == 0 then return show("check", pcall(f, ...)) end
  local ok, one, two = pcall(f, ...)
  show("check", ok, one, two)
end
local count, barred, hooks = 0, false, 0
local store, away = {}, nil
local C = {}
local objs = {}
local function act(...) tick() count = count + 1 return ... end
local function maybe(v)
  tick()
  if not barred and coroutine.isyieldable() then return coroutine.yield(v) end
  return v
end
local function through(f, ...)
  local before, r = barred, nil
  barred = true
  local packed = table.pack(...)
  local ok, e = pcall(string.gsub, "x", "x", function() r = table.pack(f(table.unpack(packed, 1, packed.n))) end)
  barred = before
  if not ok then error(e, 0) end
  return table.unpack(r, 1, r.n)
end
local closer = {__close = function(o, e) tick() count = count + (e == nil and 1 or 100) end}
local waiting = {__close = function(o, e) maybe(type(e)) end}
local function trace(e) return (debug.traceback(text(e, 9), 1):gsub("0x%x+", "ADDR")) end
local function new(class, ...)
  local o = {...}
  o.x, o.y = o[1] or 0, select("#", ...)
  o[1] = nil
  return setmetatable(o, class)
end
local function num(v)
  if math.type(v) == "integer" then return v % 1000 end
  return 3
end
local function inherit(class, parent, prefix)
  for k, v in next, parent do
    if k:sub(1, #prefix) == prefix and k ~= "__index" then rawset(class, k, v) end
  end
end
local function start(f, ...)
  fuel = 3000
  return f(...)
end
local way = {}
function way.plain(f, ...) return check(f, ...) end

C[1] = {}
rawset(C[1], '__index', function(t, k) return C[1][k] or act(maybe(k)) end)
rawset(C[1], 'm1', function(self, n, p)
  p = p or self
  for i = 1, OUTER do
    tick()
    for i = 1, INNER do
      tick()
      n = num((objs[1] - self))
    end
  end
  n = num((p.x * (objs[2] - self)))
  if self < p then return p(self, 2, nil) end
end)
rawset(C[1], '__sub', function(self, p)
  if type(self) ~= 'table' then self, p = p, self end
  do return '7' end
end)
rawset(C[1], '__lt', function(self, p, ...)
  do return ... end
end)
rawset(C[1], '__le', function(self, p)
  self.z = num(rawget(self, 'y'))
end)
C[4] = {}
objs[1] = new(C[1], 18)
objs[2] = new(C[2], 10)
local h1 = function(self, p, n)
  do return act(p:m1((self == p and self.x or 1.5)), maybe(n)) end
end
local h2 = function(self, p, n)
  for i = 1, 2 do
    n = num((self <= (1)))
  end
end
for i = 1, 11 do start(way.plain, h2, objs[i * 1 % #objs + 1], objs[i // 3 % #objs + 1], i) end
for i = 1, 13 do start(way.plain, h1, objs[i * 2 % #objs + 1], objs[i // 4 % #objs + 1], i) end
]==]
for outer = 1, 5 do
  for inner = 1, 4 do
    local text = source:gsub("OUTER", outer):gsub("INNER", inner)
    load(text, "=program")()
  end
end
