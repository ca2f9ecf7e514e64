-- t[k] in hot code: keys of all kinds, misses, appends, metatables and types that change while a loop runs.

local function show(...) print(...) end

-- String keys, made at run time and constant; numbers in the hash part; objects and booleans.
local function count(words, n)
  local t, order = {}, {}
  for i = 1, n do
    local w = words[i % #words + 1] .. (i % 3)
    local c = t[w]
    if not c then
      order[#order + 1] = w
      c = 0
    end
    t[w] = c + 1
  end
  local sum = {}
  for _, w in ipairs(order) do sum[#sum + 1] = w .. "=" .. t[w] end
  return table.concat(sum, " ")
end
show(count({"a", "b", "c", "dd"}, 500))

local function sparse(n)
  local t, s = {}, 0
  for i = 1, n do
    t[i * 1000] = i
    t[-i] = i + 0.5
    s = s + t[i * 1000] + t[-i] + (t[i * 7] or 0)
  end
  return s
end
show(sparse(300))

local function mixed(n)
  local keys = {true, false, {}, "x", 1.5, 2, print, 3.0, 2^53}
  local t, s = {}, 0
  for i = 1, n do
    local k = keys[i % #keys + 1]
    t[k] = (t[k] or 0) + i
    s = s + t[k]
  end
  return s, t[3], t[2], math.type(next({[3.0] = 1}))
end
show(mixed(400))

-- Chains of __index, tables and functions; metatables that come and go.
local function inherit(n)
  local base = {x = 1, [10] = "ten"}
  local mid = setmetatable({y = 2}, {__index = base})
  local obj = setmetatable({}, {__index = mid})
  local keys = {"x", "y", "z", 10, 11}
  local seen = {}
  for i = 1, n do
    local k = keys[i % #keys + 1]
    local v = obj[k]
    seen[i] = tostring(v)
    if i == n // 4 then setmetatable(mid, {__index = function(_, key) return "f" .. tostring(key) end}) end
    if i == n // 2 then setmetatable(mid, nil) end
    if i == 3 * n // 4 then obj.x = "own"; obj[10] = "own ten" end
  end
  return table.concat(seen, ",", n - 8), table.concat(seen, ",", n // 4 + 1, n // 4 + 6)
end
show(inherit(200))

local function stores(n)
  local log = {}
  local t = setmetatable({}, {__newindex = function(t, k, v) log[#log + 1] = k; rawset(t, k, v) end})
  for i = 1, n do
    t[i % 7] = i
    t["k" .. i % 5] = i
  end
  local meta = getmetatable(t)
  meta.__newindex = nil
  for i = 1, n do t[i % 11] = i end
  return #log, t[10], t.k3, rawlen(t)
end
show(stores(120))

-- Appending: integers, then a float, then nil in between; growth; a table that is appended to under two names.
local function append(n)
  local a, b = {}, {}
  for i = 1, n do
    a[#a + 1] = i
    b[#b + 1] = i * 0.5
    if i == n // 2 then a[#a + 1] = "text" end
  end
  local alias = a
  for i = 1, n do
    a[#a + 1] = i
    alias[#alias + 1] = -i
  end
  return #a, #b, a[n // 2 + 1], a[#a], b[n], a[#a - 1]
end
show(append(100))

local function aliased(n)
  local a = {1, 2, 3}
  local b, s = a, 0
  for i = 1, n do
    b[#b + 1] = i
    s = s + a[#a] + (a[i] or 0) + b[#b]
    if i % 10 == 0 then a[#a] = nil end
  end
  return s, #a, #b
end
show(aliased(90))

local function fresh(n)
  local s = 0
  for i = 1, n do
    local t = {}
    for j = 1, i % 9 do t[j] = j end
    for j = 1, i % 5 do t[#t + 1] = j * 1.5 end
    for j = 1, #t do s = s + t[j] end
  end
  return s
end
show(fresh(200))

local function holes(n)
  local t = {}
  for i = 1, n do t[i] = i end
  local s = 0
  for i = 1, n do
    if i % 3 == 0 then t[i] = nil end
    local v = t[i]
    if v then s = s + v end
    if i % 6 == 0 then t[i] = "h" end
  end
  return s, t[6], t[3], t[n + 1]
end
show(holes(120))

-- Float keys, and keys that are no integers.
local function floats(n)
  local t, s = {}, 0
  for i = 1, n do t[i] = i end
  for i = 2, n, 2 do s = s + t[i / 2]; t[i / 2] = s end
  for i = 1, n do local v = t[i / 4]; if v then s = s + 1 end end
  return s
end
show(floats(100))

-- The type of the object changes.
local function objects(n)
  local list = {{"a"}, {"b"}, "text", {"c"}}
  local s = {}
  for i = 1, n do
    local o = list[i % #list + 1]
    local k = i % 2 == 0 and 1 or "len"
    s[#s + 1] = tostring(o[k] ~= nil)
  end
  return #s, s[1], s[2], s[3], s[4]
end
show(objects(80))

-- Errors name what there is to name.
local function bad_key(n)
  local t = {}
  for i = 1, n do
    local k = i
    if i == n then k = nil end
    t[k] = i
  end
end
show(pcall(bad_key, 100))
local function bad_nan(n)
  local t = {}
  for i = 1, n do
    local k = i + 0.5
    if i == n then k = 0 / 0 end
    t[k] = i
  end
end
show(pcall(bad_nan, 100))
local function bad_object(n)
  local list = {}
  for i = 1, n do list[i] = {v = {i}} end
  list[n].v = nil
  local s = 0
  for i = 1, n do
    local object = list[i]
    s = s + object.v[1]
  end
  return s
end
show(pcall(bad_object, 100))
local function bad_store(n)
  local holder = {}
  for i = 1, n do holder[i] = {} end
  holder[n] = false
  for i = 1, n do
    local slot = holder[i]
    slot[i] = i
  end
end
show(pcall(bad_store, 100))

-- A captured variable that another function assigns.
local function captured(n)
  local t = {1, 2, 3}
  local function other(i) if i % 10 == 0 then t = {i, i + 1, i + 2} end end
  local s = 0
  for i = 1, n do
    other(i)
    s = s + t[1] + t[i % 3 + 1]
    t[2] = i
    t["k"] = (t["k"] or 0) + 1
  end
  return s, t.k
end
show(captured(100))

-- Collections, finalisers and weak tables inside.
local function collecting(n)
  local dead, weak = 0, setmetatable({}, {__mode = "v"})
  local keep, s = {}, 0
  for i = 1, n do
    local o = setmetatable({i}, {__gc = function(x) dead = dead + x[1] end})
    weak["k" .. i] = o
    keep["k" .. i % 10] = {i}
    if i % 50 == 0 then o = nil; collectgarbage() end
    s = s + keep["k" .. i % 10][1]
  end
  collectgarbage(); collectgarbage()
  local left = 0
  for _ in pairs(weak) do left = left + 1 end
  return s, left, dead == n * (n + 1) // 2
end
show(collecting(300))

-- Globals by computed names, while a global is used by its name.
value = 0
local function globals(n)
  local s = 0
  for i = 1, n do
    _ENV["value"] = i
    s = s + value
    _G["made" .. i % 40] = i
    if _G["made" .. i % 40] ~= i then error("lost") end
  end
  return s, made7
end
show(globals(150))

-- A key that a coroutine waits for.
local function waits()
  local t = setmetatable({}, {__index = function(_, k) return coroutine.yield(k) end})
  local s = 0
  for i = 1, 60 do
    local v = i % 3 == 0 and t["k" .. i] or 1
    s = s + v
  end
  return s
end
local co = coroutine.wrap(waits)
local answer = co()
while type(answer) == "string" do answer = co(#answer) end
show(answer)
