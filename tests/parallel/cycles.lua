-- Cycles of channels, maps, atomics, islands, tasks and domains: memory comes back when nobody has them, and not before.
local pl = require "perilune"

local function outside()
  local m = pl.memory()
  return m.islands + m.messages
end

-- A worker has what it ran last until it collects.
local pool = pl.pool.new{workers = 1}
local function settle()
  for _ = 1, 2 do
    pool:async(function() collectgarbage() end):await()
    collectgarbage()
  end
end

local text = string.rep("x", 100000)
local function island(with)
  local t = {with = with}
  for i = 1, 10000 do t[i] = i + 0.5 end
  return pl.share(t)
end

local makers = {
  ["a channel in its own queue"] = function()
    local c = pl.channel.new()
    c:send(c, text)
  end,
  ["a channel in an island in its queue"] = function()
    local c = pl.channel.new()
    c:send(island(c))
  end,
  ["two channels, over a table and a function"] = function()
    local c, d = pl.channel.new(), pl.channel.new()
    c:send({inside = {d}}, text)
    d:send(function() return c end)
  end,
  ["a map in itself, as a key"] = function()
    local m = pl.map()
    m:set(m, text)
    m:set("island", island(m))
  end,
  ["an atomic"] = function()
    local a = pl.atomic(false)
    a:store(island(a))
  end,
  ["an atomic from the start, by exchange, cas and update"] = function()
    local c = pl.channel.new()
    local a, b = pl.atomic(c), pl.atomic("")
    c:send(a, text)
    b:exchange(island(b))
    b:cas(b:load(), island(b))
    b:update(function() return island(b) end)
  end,
  ["islands in islands"] = function()
    local c = pl.channel.new()
    local inner = island(c)
    c:send(island{inner, island(inner)})
  end,
  ["an offer that nobody took"] = function()
    local c = pl.channel.new(0)
    c:send_timeout(0, c, text)
  end,
  ["a receiver that gave up"] = function()
    local c = pl.channel.new()
    c:recv_timeout(0)
    c:send(c, text)
  end,
  ["a task that returns itself"] = function()
    local c = pl.channel.new()
    local t = pool:async(function(c, text) return c:recv(), text end, c, text)
    c:send(t)
    t:await()
  end,
  ["a task that fails with itself"] = function()
    local c = pl.channel.new()
    local t = pool:async(function(c, text) error{c:recv(), text} end, c, text)
    c:send(t)
    assert(not pcall(t.await, t))
  end,
  ["a domain that returns itself"] = function()
    local c = pl.channel.new()
    local d = pl.domain.spawn(function(c, text) return c:recv(), text end, c, text)
    c:send(d)
    d:join()
  end,
}

-- Something that looks the same and is in use, all the time.
local kept, map = pl.channel.new(), pl.map()
kept:send(kept, island(kept), map)
map:set("kept", kept)
map:set(kept, island(map))
local only_island = island(pl.channel.new())
only_island.with:send(only_island)

local names = {}
for name in pairs(makers) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  makers[name]()
  settle()
  local before = outside()
  for _ = 1, 30 do makers[name]() end
  settle()
  -- Each would leave 80,000 bytes at least. The account is exact to 64 KiB for each thread; domains that have ended may take a moment to go.
  local left
  for _ = 1, 100 do
    left = outside() - before
    if left < 1000000 then break end
    pl.sleep(0.01)
    collectgarbage()
  end
  print(name, left < 1000000 and "gone" or left)
end

-- Without being asked, when much has gathered: 60 MB in all, and next to nothing in the heap.
local most = 0
for i = 1, 600 do
  local c = pl.channel.new()
  c:send(c, text)
  if i % 20 == 0 then most = math.max(most, outside()) end
end
print("unasked", most < 40e6 or most)

-- What is in use is all there.
local c, i, m = kept:recv()
print(rawequal(c, kept), i.with == kept, m == map, #map)
print(map:get("kept") == kept, map:get(kept).with == map)
only_island.with:send("more")
print(only_island.with:recv() == only_island, only_island.with:recv())
