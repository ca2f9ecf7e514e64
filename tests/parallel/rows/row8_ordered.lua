-- 10,000 ordered events for one handler: in order, one at a time, and no worker waits for its turn.
-- A pool that gives each handler a lock would have every worker asleep in it; one that gives each handler
-- a thread would keep the other handlers of that thread waiting.
local pl = require "perilune"
local threads = require "threads"
local events = tonumber(arg[1]) or 10000
local workers = 4
local pool = pl.pool.new { workers = workers, name = "handlers" }
local gate = pl.channel.new(0, "gate")
local log = pl.array("i64", events)
local at, inside, most = pl.atomic(0), pl.atomic(0), pl.atomic(0)

local function handle(n)
  most:max(inside:add(1))
  if n == 1 or n % 1000 == 0 then gate:recv() end
  log[at:add(1)] = n
  inside:sub(1)
end

local handler = pool:lane "handler"
for n = 1, events do handler:async(handle, n) end

-- The first event waits, with all others behind it. As many tasks as there are workers, each needing all of
-- the others, find workers all the same.
local meeting, released = pl.channel.new(), pl.channel.new()
local others = {}
for k = 1, workers do
  others[k] = pool:async(function() meeting:send(k) return released:recv_timeout(100) end)
end
for _ = 1, workers do assert(meeting:recv_timeout(100), "a worker is blocked") end
for _ = 1, workers do released:send(true) end
for k = 1, workers do assert(others[k]:await()) end
-- And so do the other lanes.
for k = 1, 100 do others[k] = pool:lane(k):async(function() return k end) end
for k = 1, 100 do assert(others[k]:await() == k) end
assert(at:load() == 0, "an event has overtaken the first one")
-- The main one, those for timers and signals, the one that compiles, and the one that reads how many there are.
local most_threads = threads.threads()
assert(most_threads <= workers + 5, most_threads .. " threads")

for _ = 1, 1 + events // 1000 do gate:send(true) end
handler:async(function() end):await()
for n = 1, events do assert(log[n] == n, "event " .. log[n] .. " was number " .. n) end
assert(most:load() == 1, "two events at once")
assert(#handler == 0)

-- Events of many handlers, given by several domains: each handler's in the order in which each domain gave them.
local handlers, rounds = 50, events // 50
local last = pl.array("i64", handlers * 2)
local function ordered(slot, n)
  assert(last[slot] == n - 1, "out of order")
  last[slot] = n
end
local givers = {}
for g = 1, 2 do
  givers[g] = pl.domain.spawn(function()
    local tasks = {}
    for n = 1, rounds do
      for h = 1, handlers do tasks[#tasks + 1] = pool:lane("h" .. h):async(ordered, (g - 1) * handlers + h, n) end
    end
    pl.await_all(tasks)
  end)
end
for g = 1, 2 do givers[g]:join() end
for slot = 1, handlers * 2 do assert(last[slot] == rounds) end
pool:close()
print "ok"
