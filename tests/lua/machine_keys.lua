-- Tables, and integers that are no elements, as keys of tables, looked for in line: sets of objects, weak ones, keys that come and go, numbers and strings that look alike, metatables.
local function keys(n) local all = {} for i = 1, n do all[i] = { i } end return all end
local function sum(set, list) local s = 0 for i = 1, #list do s = s + (set[list[i]] or -1) end return s end
local list, set = keys(100), {}
print(sum(set, list))
for i = 1, 100 do set[list[i]] = i end
print(sum(set, list))
local function scale(set, list, by) for i = 1, #list do set[list[i]] = set[list[i]] * by end end
for _ = 1, 5 do scale(set, list, 2) end
print(sum(set, list))
for i = 1, 100, 3 do set[list[i]] = nil end
print(sum(set, list))
local function flags(set, list, v) for i = 1, #list do set[list[i]] = v end local n = 0 for i = 1, #list do n = n + (set[list[i]] and 1 or 0) end return n end
for r = 1, 5 do print(flags({}, list, true), flags(set, list, r % 2 == 0), flags(set, list, nil), flags(set, list, 1.5)) end

-- Collisions: many keys, few nodes at a time.
local many, small = keys(3000), {}
for i = 1, 3000 do
  small[many[i]] = i
  if i > 7 then small[many[i - 7]] = nil end
  assert(small[many[i]] == i and not small[many[math.max(i - 7, 1)]] or i <= 7)
end
local n = 0 for _ in pairs(small) do n = n + 1 end
print(n)

-- Default values, __newindex, and what only looks like an object.
local dflt = setmetatable({}, { __index = function(_, k) return k[1] end, __newindex = function(t, k, v) rawset(t, k, -v) end })
print(sum(dflt, list))
for i = 1, 50 do dflt[list[i]] = i end
print(sum(dflt, list))
for i = 1, 50 do dflt[list[i]] = i end
print(sum(dflt, list))
local mixed = {}
local function get(t, k) return t[k] end
for i = 1, 100 do mixed[list[i]] = i mixed[i + .5] = -i mixed["k" .. i] = 0 end
local s = 0
for r = 1, 20 do for i = 1, 100 do s = s + get(mixed, list[i]) end end
print(s, get(mixed, 7.5), get(mixed, "k9"), get(mixed, true), get(mixed, list), get(mixed, print))
for i = 1, 100 do s = s + get(mixed, i + .5) end
print(s)

-- Weak keys: those that nobody has are gone, the others are found.
local weak = setmetatable({}, { __mode = "k" })
for r = 1, 10 do
  local own = keys(200)
  for i = 1, 200 do weak[own[i]] = i end
  for i = 1, 200 do weak[own[i]] = weak[own[i]] + r end
  assert(sum(weak, own) == 20100 + 200 * r)
  own = nil
  collectgarbage()
end
collectgarbage()
print(next(weak))

-- What is no table.
local ok, e = pcall(function() return get(nil, list) end)
print(ok, (e:gsub("^.-:%d+: ", "")))

-- Integers: small and large, negative, those that begin one chain, those that are elements elsewhere, and floats that are integers.
local function put(t, k, v) t[k] = v end
for _, step in ipairs { 1, 3, 7, 64, 127, 1000003, 1 << 40, -5 } do
  local t, s = {}, 0
  for i = 1, 300 do put(t, i * step, i) end
  for i = 1, 300 do put(t, i * step, get(t, i * step) + .5) end
  for i = 1, 300, 2 do put(t, i * step, nil) end
  for i = 0, 301 do s = s + (get(t, i * step) or -1) end
  for i = 2, 300, 2 do s = s + get(t, i * step + 0.0) end
  for i = 1, 300 do put(t, i * step, i % 3 == 0) end
  local n = 0
  for k, v in pairs(t) do n = n + (v and k // step or 1) end
  print(step, s, n)
end
local edges = { 0, -1, 1 << 62, math.maxinteger, math.mininteger, 255, 256, 65535, 65536, 65537 }
local t = {}
for r = 1, 40 do
  for i, k in ipairs(edges) do put(t, k, (get(t, k) or 0) + i * r) end
end
for _, k in ipairs(edges) do io.write(k, "=", t[k], " ") end
print(#t, get(t, 7), get(t, 2.5))
-- From nodes into elements, and back.
local moving = {}
for i = 64, 1, -1 do put(moving, i, i) for k = i, 64 do assert(get(moving, k) == k) end end
for i = 1, 64 do put(moving, i, true) assert(get(moving, i) == true) end
for i = 1, 64 do put(moving, i, nil) put(moving, i * 1000, i) assert(get(moving, i) == nil and get(moving, i * 1000) == i) end
print(#moving, get(moving, 64000))
local seen = setmetatable({}, { __index = function(_, k) return k * 2 end, __newindex = function(t, k, v) rawset(t, k, v + 1) end })
local total = 0
for r = 1, 5 do for i = 1, 100 do put(seen, i * 50, i) total = total + get(seen, i * 50) + get(seen, -i) end end
print(total)
