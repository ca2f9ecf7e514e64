-- Maps: names, views, entries that end, iteration while others write.
local pl = require "perilune"
local pool = pl.pool.default()

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, message)
end

local m = pl.map()
m:set("count", 5)
refused(function() return m.count end)
refused(function() return m:gett "count" end)
refused(function() return m[1] end)
refused(function() m.count = 1 end)
refused(pl.map, { tttl = 1 })
refused(pl.map, { ttl = 0 })
refused(pl.map, 5)
refused(function() m:set("a", 1, { ttl = "x" }) end)
refused(function() m:touch("a", -1) end)
refused(function() m:touch("a", 0 / 0) end)
refused(pl.map, { ttl = 0 / 0 })
print(m:has "count", m:has "x", m:get "count")

-- Views.
local v = m:view()
v.count = v.count + 1
v[2], v[3.0], v[true] = "two", 3, m
print(v.count, v[2.0], v[3], v[true] == m, v.get, v[nil], v[0 / 0], #v, m:get(2))
local function sorted(t)
  local list = {}
  for k, x in pairs(t) do list[#list + 1] = tostring(k) .. "=" .. (type(x) == "userdata" and "map" or tostring(x)) end
  table.sort(list)
  return table.concat(list, " ")
end
print(sorted(v), sorted(m) == sorted(v))
v.count, v[true] = nil, nil
print(v.count, #v)
refused(function() v.t = {} end)
refused(function() v[nil] = 1 end)
print(pool:async(function() v.from = "a task" return v[2] end):await(), v.from)

-- Entries that end.
m = pl.map()
local function ends(map, ...)
  for _, key in ipairs { ... } do map:touch(key, 0.001) end
  for _, key in ipairs { ... } do while map:has(key) do pl.sleep(0.001) end end
end
m:set("a", 1, { ttl = 3600 })
m:set("b", 2, { ttl = 3600 })
print(m:get "a", m:ttl "a" <= 3600, m:ttl "b" > 50, m:ttl "c", m:touch "c")
ends(m, "a")
print(m:get "a", m:has "a", m:ttl "a", #m, #m:keys(), m:add "a", m:ttl "a")
m:set("b", 3)
print(m:ttl "b", m:touch("b", 3600), m:ttl "b" > 5, m:touch("b", false), m:ttl "b")
local c = pl.map { ttl = 3600 }
c:set("x", 1)
c:set("y", 2, { ttl = false })
c:add "z"
c:view().w = 1
c:touch("x", 2000)
print(c:touch "x", c:add "z", #c)
assert(c:ttl "x" > 2000, "the time of the map, from now on")
ends(c, "z", "w")
print(c:get "x", c:get "y", c:get "z", c:get "w", #c, c:cas("z", nil, 7), c:update("z", function(n) return n + 1 end))
print(c:update("new", function(n) return (n or 10) + 1 end), c:ttl "new" > 0)
local left = 0
for _ in pairs(c) do left = left + 1 end
print(left, c:clear(), #c)

-- What has ended costs no memory for long, though nobody comes by. (The account is exact to a portion of each thread.)
local before = pl.memory().messages
local big = pl.map()
for i = 1, 4000 do big:set("session" .. i, ("x"):rep(100)) end
print(pl.memory().messages - before > 400000)
for i = 1, 4000 do big:touch("session" .. i, 0.1) end
repeat pl.sleep(0.05) until pl.memory().messages - before < 140000
print(pl.memory().messages - before < 140000)
-- Nor does a key that is set again and again.
for r = 1, 2000 do for k = 1, 10 do big:set(k, r, { ttl = 3600 }) end end
print(#big, pl.memory().messages - before < 440000)

-- Iteration while others write: what is there all the time is seen once.
local busy = pl.map()
for i = 1, 500 do busy:set(i, "stays") end
local begun, stop = pl.atomic(0), pl.atomic(0)
local writer = pl.domain.spawn(function()
  local n = 0
  while stop:load() == 0 do
    n = n + 1
    busy:set("w" .. n % 300, n, { ttl = n % 2 == 0 and 0.001 or nil })
    if n % 3 == 0 then busy:set("w" .. (n // 3) % 300, nil) end
    begun:store(1)
  end
  return n > 0
end)
while begun:load() == 0 do pl.sleep(0) end
local fine = true
for _ = 1, 30 do
  local seen, stays = {}, 0
  for k, x in pairs(busy) do
    fine = fine and not seen[k]
    seen[k] = true
    if x == "stays" then stays = stays + 1 end
  end
  fine = fine and stays == 500
end
stop:store(1)
print(writer:join(), fine)

-- A change by a function loses nothing.
local u = pl.map { ttl = 60 }
pool:parallel_for(1, 2000, function(i) u:update(i % 7, function(n) return (n or 0) + 1 end) end)
local sum = 0
for _, n in pairs(u:view()) do sum = sum + n end
print(sum, #u)
