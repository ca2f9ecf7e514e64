-- Functions of Lua that functions of the library call, again and again: comparators, replacements, readers, metamethods.
local function filled(n)
  local a, seed = {}, 31
  for i = 1, n do seed = seed * 16807 % 2147483647 a[i] = { k = seed % 50, s = "n" .. seed % 1000, id = i } end
  return a
end
local compared = 0
local function by(x, y)
  compared = compared + 1
  if x.k ~= y.k then return x.k < y.k end
  if x.s ~= y.s then return x.s < y.s end
  return x.id < y.id
end
for round = 1, 4 do
  local a = filled(400)
  table.sort(a, by)
  for i = 2, #a do assert(not by(a[i], a[i - 1])) end
  if round == 4 then print(a[1].id, a[200].id, a[400].id, compared) end
end
-- A comparator that raises an error, one that gives nothing, one that gives much, one that is wrong.
for i = 1, 30 do
  local a = filled(60)
  local n = 0
  local ok, e = pcall(table.sort, a, function(x, y) n = n + 1 if n == 40 then error({ at = n }) end return x.id > y.id end)
  assert(not ok and e.at == 40)
  table.sort(a, function() end)
  table.sort(a, function(x, y) return x.id < y.id, 1, 2, 3 end)
  assert(a[1].id == 1 and a[60].id == 60)
end
print(pcall(table.sort, filled(100), function() return true end))
-- Comparators that sort.
local outer = filled(20)
table.sort(outer, function(x, y)
  local inner = { x.k, y.k, 5, 3 }
  table.sort(inner, function(p, q) return p > q end)
  return x.id < y.id and inner[1] >= inner[4]
end)
print(outer[1].id, outer[20].id)
-- Extra arguments, variables that are closed, and tail calls.
local function vararg(...) local x, y = ... return x.id < y.id end
local function tail(x, y) return vararg(x, y) end
local made = {}
local function closing(x, y) local f = function() return x.id end made[1] = f return f() < y.id end
for i = 1, 20 do
  for _, f in ipairs { vararg, tail, closing } do
    local a = filled(80)
    table.sort(a, f)
    assert(a[1].id == 1 and a[80].id == 80)
  end
end
-- Replacements.
local words = 0
local function replace(w) words = words + 1 if #w > 3 then return w:upper() end if w == "is" then return false end end
local text
for i = 1, 200 do text = ("this is a line of some words that are long"):gsub("%a+", replace) end
print(text, words)
for i = 1, 50 do
  local ok, e = pcall(string.gsub, "abc", ".", function(c) if c == "b" then error("at " .. c, 0) end return c .. c end)
  assert(not ok and e == "at b")
end
-- Readers of load, and iterators that the library steps.
local n = 0
for i = 1, 100 do
  local parts, p = { "return ", tostring(i), " + ", "1" }, 0
  n = n + assert(load(function() p = p + 1 return parts[p] end))()
end
print(n)
-- Metamethods that the library asks: lengths, elements, comparisons without a comparator, tostring, pairs.
local P = {}
P.__index = P
P.__lt = function(x, y) return x.v < y.v end
P.__tostring = function(p) return "<" .. p.v .. ">" end
P.__concat = function(x, y) return tostring(x) .. tostring(y) end
for i = 1, 30 do
  local a = {}
  for k = 1, 40 do a[k] = setmetatable({ v = k * 37 % 41 }, P) end
  table.sort(a)
  for k = 2, 40 do assert(a[k - 1].v < a[k].v) end
  if i == 30 then print(tostring(a[1]), a[40] .. a[39], tostring(a[7])) end
end
local proxied = 0
local proxy = setmetatable({}, {
  __len = function() return 5 end,
  __index = function(_, k) proxied = proxied + 1 return k * k end,
  __newindex = function(t, k, v) rawset(t, k, v) end,
})
for i = 1, 60 do assert(table.concat(proxy, ",") == "1,4,9,16,25") end
print(proxied, table.unpack(proxy))
-- Deep: a callback of a callback, as far as the library lets it.
local depth = 0
local function down(c) depth = depth + 1 if depth < 100 then return (("x"):gsub(".", down)) end return "end" end
print((("x"):gsub(".", down)), depth)
local function forever() return (("x"):gsub(".", forever)) end
local ok, e = pcall(forever)
print(ok, (tostring(e):gsub("^.-:%d+: ", "")))
-- Dropped values: a comparator under a collector that runs.
for i = 1, 10 do
  local a = filled(200)
  table.sort(a, function(x, y) local junk = { x, y, {} } return #junk == 3 and x.id > y.id end)
  assert(a[1].id == 200)
end
collectgarbage()
print "done"
