-- What `lists.rs` builds programs from, behind `prelude.lua`.
local kept, count, total = {}, 0, 0
local function number(v) return type(v) == "number" and v or 1 end
local List = {} List.__index = List
List.__add = function(a, b) return setmetatable({ number(a[1]) + number(b[1]), b[2] }, List) end
function List:first() return self[1] end
function List:sum() return number(self[1]) + number(self[2]) end
-- Lists that outlive the function, now and then.
local function keep(t) count = count + 1 kept[count % 9 + 1] = t return t end
-- None, one or three values.
local function none() end
local function one(i) if i % 50 == 0 then return i, 2 end return i end
local function three(i) return i, i + 1, i * 0.5 end
local function same(...) return ... end
local function collect(...) local t = { ... } return t[1], t[2] end
local function behind(_, ...) return { ... } end
-- Built in place where they are called, as a rule.
local function add(a, b) return { number(a[1]) + number(b[1]), number(a[2]) + number(b[2]) } end
local function turned(a) return { a[2], a[1] } end
-- Which border it is is left open where there are several.
local function sound(a)
  local n = #a
  return number(a[1]) * 2 + (a[n + 1] == nil and (n == 0 or a[n] ~= nil) and 1 or 9)
end
-- A border, or what is none: which border it is is left open where there are several.
local function border(t, n)
  if type(t) ~= "table" then return n end
  for k = 1, 12 do if rawget(t, k) == nil then for j = k + 1, 12 do if rawget(t, j) ~= nil then k = 13 end end
    if k == 13 then return (n == 0 or rawget(t, n) ~= nil) and rawget(t, n + 1) == nil and "a border" or "none" end
    return n end end
  return "long"
end
local function word(v, depth)
  local kind = math.type(v) or type(v)
  if kind == "float" then return v ~= v and "nan" or string.format("%.17gf", v) end
  if kind ~= "table" then return kind == "function" and kind or tostring(v) end
  if depth == 0 then return "{}" end
  local s, pairs = getmetatable(v) == List and "L{" or "{", 0
  -- As many as a traversal comes to, which are as many as there are.
  for _, x in next, v do pairs = pairs + (x == nil and 100 or 1) end
  for k = 1, 12 do local x = rawget(v, k) if x ~= nil then s = s .. k .. "=" .. word(x, depth - 1) .. "," end end
  local x = rawget(v, "name")
  return s .. (x ~= nil and "name=" .. word(x, depth - 1) or "") .. pairs .. "}"
end
-- All of these in one number.
local function mix(sum, ...)
  for k = 1, select("#", ...) do
    local s = word((select(k, ...)), 3)
    for j = 1, #s do sum = (sum * 31 + s:byte(j)) % 1000000007 end
  end
  return sum
end
local function often(f, times, ...)
  local sum = 0
  for i = 1, times do sum = mix(sum, pcall(f, i, ...)) end
  show("often", times, sum, count, total, mix(0, kept))
end
local function once(f, ...)
  show("once", mix(0, pcall(f, ...)), mix(0, table.unpack(kept, 1, 9)))
end
