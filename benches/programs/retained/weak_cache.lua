-- Canonical objects behind a weak-valued table, properties behind a weak-keyed one, while the program runs on.
-- bench: group=retained size=600000 quick=60000
local n = tonumber(arg and arg[1]) or 600000

local canon = setmetatable({}, { __mode = "v" })
local notes = setmetatable({}, { __mode = "k" })
local made = 0
local function point(x, y)
  local key = x * 1000 + y
  local p = canon[key]
  if not p then
    p = { x = x, y = y }
    canon[key] = p
    notes[p] = { key = key }
    made = made + 1
  end
  return p
end
local held, seed = {}, 21
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
for i = 1, n do
  local p = point(random(200), random(200))
  assert(point(p.x, p.y) == p and notes[p].key == p.x * 1000 + p.y)
  held[i % 5000] = p
end
held[n % 5000 + 1] = nil
collectgarbage()
collectgarbage()
local alive, distinct, unique = 0, {}, 0
for _, p in pairs(held) do
  if not distinct[p] then distinct[p] = true; unique = unique + 1 end
end
for key, p in pairs(canon) do
  assert(distinct[p] and p.x * 1000 + p.y == key)
  alive = alive + 1
end
assert(alive == unique and made >= alive)
print(string.format("weak_cache %d", alive))
