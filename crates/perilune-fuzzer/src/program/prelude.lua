local rawtostring = tostring
local function tostring(v)
  return (rawtostring(v):gsub("0x%x%x%x%x%x+", "ADDR"))
end
local fuel = 6000
local function tick()
  fuel = fuel - 1
  if fuel < 0 then error("out of fuel", 0) end
end
-- Each value that is shown is the key that an equal one, made in another way, is.
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
local Base = {} Base.__index = Base
function Base.new(n) return setmetatable({n = n or 0, log = {}}, Base) end
function Base:get() return self.n end
function Base:inc() self.n = self.n + 1 return self.n end
function Base:twice(k) tick() return self:get() * k end
Base.__len = function(o) return o.n end
Base.__eq = function(a, b) return a.n == b.n end
Base.__lt = function(a, b) return (a.n or a) < (b.n or b) end
Base.__le = function(a, b) return a.n <= b.n end
local Derived = setmetatable({}, {__index = Base}) Derived.__index = Derived
for k, v in next, Base do if k:sub(1, 2) == "__" and k ~= "__index" then Derived[k] = v end end
function Derived.new(n) local o = Base.new(n) o.extra = 1 return setmetatable(o, Derived) end
function Derived:get() return Base.get(self) + self.extra end
Derived.__tostring = function(o) return "Derived:" .. text(o.n, 9) end
Derived.__call = function(o, ...) tick() return o.n, ... end
Derived.__concat = function(a, b) return "<" .. type(a) .. ".." .. type(b) .. ">" end
local Vec = {}
Vec.__index = function(o, k) tick() return k == "n" and o[1] or Vec[k] end
Vec.__newindex = function(o, k, v) tick() rawset(o, k == "n" and 1 or k, v) end
function Vec.new(n) return setmetatable({n or 0, 1}, Vec) end
Vec.get, Vec.inc, Vec.twice = Base.get, Base.inc, Base.twice
for _, op in ipairs{"add", "sub", "mul", "div", "mod", "idiv", "pow", "band", "bor", "bxor", "shl", "shr", "unm", "bnot", "concat"} do
  Vec["__" .. op] = function(a, b) return op .. ":" .. type(a) .. type(b) end
end
Vec.__lt = function(a, b) return "yes" end
Vec.__le = function(a, b) return nil end
Vec.__len = function() return 3 end
Vec.__tostring = function(o) return "Vec" end
