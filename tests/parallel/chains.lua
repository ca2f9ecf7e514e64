-- stress: no
-- Shared objects that hold each other in long chains are freed without recursion, whatever refers to what. (A test of the command runs
-- this with a small native stack.)
local pl = require "perilune"
local pool <const> = pl.pool.new { workers = 1 }

-- Makes the next link of a chain: something that holds `last`.
local links = {
  map = function(last) local m = pl.map() m:set(1, last) return m end,
  key = function(last) local m = pl.map() m:set(last, 1) return m end,
  atomic = function(last) return pl.atomic(last) end,
  message = function(last) local c = pl.channel.new() c:send({ { last } }, last) return c end,
  -- One that waits for room is kept by the list of those who wait.
  offer = function(last)
    local c = pl.channel.new(0)
    assert(c:send_timeout(0, last) == nil)
    c:try_send(last)
    return pl.atomic(c) and pl.atomic(last)
  end,
  lane = function(last) return pool:lane(last) end,
  island = function(last) return pl.share { last } end,
  closure = function(last)
    local c = pl.channel.new()
    c:send(function() return last end)
    return c
  end,
  result = function(last)
    local t = pool:async(function(v) return v end, last)
    t:await()
    return t
  end,
  failure = function(last)
    local t = pool:async(function(v) error { v } end, last)
    assert(not pcall(t.await, t))
    return t
  end,
  turn = function(last)
    local t = pool:lane(last):async(function(v) return v end, last)
    t:await()
    return t
  end,
}
local names = {}
for name in pairs(links) do names[#names + 1] = name end
table.sort(names)

local length = { key = 10000, map = 10000, offer = 10000, result = 10000, failure = 10000, turn = 10000 }

for _, name in ipairs(names) do
  local link, last = links[name], pl.atomic(false)
  for _ = 1, length[name] or 100000 do last = link(last) end
  last = nil
  collectgarbage()
  print(name)
end

-- Mixed, by a fixed sequence of numbers.
local state, last = 42, pl.atomic(false)
for _ = 1, 20000 do
  state = (state * 1103515245 + 12345) % 2147483648
  last = links[names[state // 65536 % #names + 1]](last)
end
last = nil
collectgarbage()
print "mixed"

-- Lists that are given up elsewhere: at the end of a domain, in a message that nobody receives, by a store.
pl.domain.spawn(function()
  local last = pl.atomic(false)
  for _ = 1, 200000 do last = pl.atomic(last) end
end):join()
local cell = pl.atomic(false)
for _ = 1, 200000 do cell:store(pl.atomic(cell:load())) end
collectgarbage()
cell:store(false)
local map = pl.map()
for _ = 1, 200000 do map:set(1, pl.atomic(map:get(1))) end
collectgarbage()
map:clear()
local cycle = pl.atomic(false)
do
  local last = cycle
  for _ = 1, 200000 do last = pl.atomic(last) end
  cycle:store(last)
end
cycle = nil
collectgarbage()
print "elsewhere"
