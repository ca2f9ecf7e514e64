-- Lanes: tasks that run one after the other.
local pl = require "perilune"
local pool = pl.pool.new { workers = 3, name = "p" }

-- In the order of submission, never two at once, also if a task waits in the middle.
local log = pl.channel.new()
local lane = pool:lane "orders"
for i = 1, 5 do
  lane:async(function()
    log:send("begin " .. i)
    pl.sleep(0.002 * (5 - i))
    log:send("end " .. i)
  end)
end
lane:async(log.close, log):await()
for line in log do io.write(line, "; ") end
print()

-- The same name is the same lane, wherever it is asked for; other names are other lanes.
local gate = pl.channel.new(0)
local first = pool:lane "a":async(function() return gate:recv() end)
local second = pool:async(function() return pool:lane("a"):async(function() return "second" end) end):await()
print(pool:lane "b":async(function() return "other lane" end):await())
print(pool:lane(1):async(function() return "integer" end):await(), pool:lane(gate):async(function() return "object" end):await())
pl.sleep(0.005)
print(first:status(), second:status(), #pool:lane "a", #pool:lane(1.0))
gate:send("first")
print(first:await(), second:await())

-- Lanes without a name are all different.
local x, y = pool:lane(), pool:lane()
local tx = x:async(function() return gate:recv() end)
local ty = y:async(function() gate:send("from y") return "sent" end)
print(tx:await(), ty:await())

-- Arguments, results, errors: as with any task. An error does not stop the lane.
local bad = lane:async(function(a, b) error("no " .. a + b) end, 1, 2)
local good = lane:async(function(...) return select("#", ...), ... end, nil, "x", nil)
print(select(2, pcall(bad.await, bad)):match "[^\n]*")
print(good:await())
print(pl.await_all { lane:async(math.max, 1, 3), lane:async(math.min, 1, 3) })
print(pl.await_any { lane:async(math.abs, -1) })
local many = {}
for i = 1, 1000 do many[i] = pool:lane(i % 10):async(function() end) end
print(select("#", pl.await_all(many)))

-- Cancelled while it waits in the lane, and while it runs: the lane goes on.
local closed = pl.channel.new()
local running = lane:async(function()
  local guard <close> = setmetatable({}, { __close = function() closed:send("closed") end })
  closed:send("runs")
  gate:recv()
end)
local queued = lane:async(function() return "never" end)
local after = lane:async(function() return closed:try_recv() end)
print(queued:cancel(), queued:status())
closed:recv()
print(running:cancel())
print(after:await())
print(running:status(), queued:status(), pcall(queued.await, queued))

-- A task may give tasks to its own lane; they come after what is there already.
local order = pl.channel.new()
local done = pl.channel.new()
lane:async(function()
  gate:recv()
  lane:async(function() order:send("inner") done:send() end)
  order:send("outer")
end)
lane:async(function() order:send("behind") end)
gate:send(true)
done:recv()
order:close()
for what in order do io.write(what, " ") end
print()

-- One that waits for a later one of its own lane waits for ever, which is found out.
local t = lane:async(function()
  local later = lane:async(function() end)
  local ok, message = pcall(later.await, later)
  return ok, message:match "deadlock: [^\n]*", message:match "waits for a task of lane 'orders'"
end)
pcall(t.await, t) -- the deadlock may be ours too
print(t:await())

-- Values, not variables: the refusals are those of tasks.
local n = 0
print(pcall(lane.async, lane, function() n = n + 1 end))
print(pcall(lane.async, lane, 5))
print(pcall(pool.lane, pool, {}))
print(pcall(pool.lane, 5))
print(tostring(lane), tostring(pool:lane(7)))

-- A closed pool finishes what its lanes have.
local sum = pl.atomic(0)
for i = 1, 100 do pool:lane(i % 3):async(function() sum:add(i) end) end
for i = 1, 50 do lane:async(function() pl.sleep(0) sum:add(1) end) end
pool:close()
print(sum:load())
print(pcall(lane.async, lane, print))

-- The pool lives as long as a lane of it does.
local orphan = pl.pool.new { workers = 1 }:lane()
collectgarbage() collectgarbage()
print(orphan:async(function() return "alive" end):await())
