-- Tables that are made empty, known to others, and then given fields: some are nil, some tables are old by then, and
-- metatables have a say.
local Mt = { __index = { kind = "mt" } }
local seen = {}
local function copy(t, depth)
  local c = {}
  seen[t] = c
  setmetatable(c, Mt)
  c.name = t.name
  c.x = t.x
  c.y = t.y
  if t.name == "pair" and depth < 4 then
    c.left = copy(t.left, depth + 1)
    c.right = copy(t.right, depth + 1)
  elseif t.name == "leaf" then
    c.value = t.value
    c.a, c.b, c.c, c.d, c.e, c.f = 1, 2.5, "c", t.x, false, t
  end
  return c
end
local function leaf(i) return { name = "leaf", x = i, y = i % 3 ~= 0 and i / 2 or nil, value = "v" .. i % 7 } end
local function pair(i) return { name = "pair", x = i % 2 == 0 and i or nil, left = leaf(i), right = leaf(i + 1) } end
local function show(t)
  local keys, out = {}, {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  for _, k in ipairs(keys) do
    local v = t[k]
    out[#out + 1] = k .. "=" .. (type(v) == "table" and (v.name or "?") or tostring(v))
  end
  return table.concat(out, " ")
end
for round = 1, 40 do
  seen = {}
  for i = 1, 30 do
    local c = copy(i % 4 == 0 and pair(i) or leaf(i), 1)
    if round == 40 and i % 7 < 2 then print(i, show(c), c.kind, c.left and show(c.left)) end
  end
end

-- Old tables that get numbers only: nothing young is stored into them but where their fields are.
local function grow(t, i)
  t.p = i
  t.q = i + 1
  t.r = i + 0.5
  t.s = i * 2
  t.u = -i
  return t
end
local old = {}
for i = 1, 3000 do old[i] = {} end
collectgarbage()
collectgarbage()
for i = 1, 3000 do grow(old[i], i) end
local keep = {}
for i = 1, 60000 do keep[i % 1000] = { x = i, y = i } end
local sum = 0
for i = 1, 3000 do
  local t = old[i]
  assert(t.p == i and t.q == i + 1 and t.r == i + 0.5 and t.s == 2 * i and t.u == -i)
  sum = sum + t.p + t.q + t.r + t.s + t.u
end
print(sum)

-- A metatable that wants to know of new fields, after many that did not.
local told = {}
local Tells = { __newindex = function(t, k, v) told[#told + 1] = k; rawset(t, k, v) end }
local function make(i, mt)
  local o = {}
  seen[i] = o
  setmetatable(o, mt)
  o.first = i
  o.second = i > 100 and nil or i
  o.third = "t"
  return o
end
for i = 1, 400 do make(i, Mt) end
print(show(make(1, Tells)), table.concat(told, ","))
print(show(make(200, Tells)), table.concat(told, ","))
local frozen = setmetatable({}, { __newindex = function(_, k) error("no " .. k, 0) end })
print(pcall(function() for i = 1, 100 do grow(i < 100 and {} or frozen, i) end end))

-- Natives that were asked for one kind of thing, and then for all others.
local function ask(v) return tonumber(v), tostring(v) end
local function least(a, b) return math.min(a, b), math.max(a, b) end
local things = { 1, 2.5, "3", "x", true, false }
for round = 1, 60 do
  for i = 1, round < 30 and 2 or 6 do
    local n, s = ask(things[i])
    if round == 60 then print(n, s) end
  end
end
print(ask(nil), tonumber("z", 36), tonumber("10", nil), tonumber(nil, nil), pcall(tonumber), pcall(tonumber, {}, 10))
print(tostring(setmetatable({}, { __tostring = function() return "me" end })), (tostring(setmetatable({}, { __name = "N" })):gsub("0x%x+", "0x")))
for round = 1, 60 do
  local a, b = least(round, round < 30 and 5 or 5.5)
  local c, d = least(round + 0.5, 7)
  if round % 20 == 0 then print(a, b, c, d) end
end
print(pcall(least, 1, "2"), pcall(least, 2^53, (1 << 53) + 1))
local function removed(t, i) return table.remove(t, i) end
for round = 1, 60 do
  local t = { 1, 2, 3, 4, 5 }
  local a, b, c, d = removed(t, 1), removed(t, 4), removed(t, #t + 1), table.remove(t)
  if round == 60 then print(a, b, c, d, #t, t[1], t[2], t[3], pcall(removed, t, 9), removed({}, 0), removed({ [0] = "z" }, 0)) end
end
for round = 1, 60 do
  local t = setmetatable({}, nil)
  t.x = setmetatable({ round }, round % 2 == 0 and Mt or nil)
  if round > 58 then print(t.x.kind, getmetatable(t.x) == Mt, pcall(setmetatable, t, 1)) end
end
