-- Idle: no wakeups, no processor time.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local seconds = tonumber(arg[1]) or 3
local pool = pl.pool.new { workers = 4 }
pool:parallel_for(1, 1000, function() end)
local waiting = {}
local gate = pl.channel.new(0)
for i = 1, 100 do waiting[i] = pool:async(function() return gate:recv() end) end
local d = pl.domain.spawn(function() return gate:recv() end)
pl.sleep(3) -- until idle threads have retired
local cpu, wakeups = os.clock(), os_view.wakeups()
pl.sleep(seconds)
cpu, wakeups = os.clock() - cpu, os_view.wakeups() - wakeups
for i = 1, 101 do gate:send(i) end
for i = 1, 100 do waiting[i]:await() end
d:join()
assert(cpu < 0.02, "processor time " .. cpu)
-- Our own looking takes a few, since the compiling thread looks whether it is something hot; anything that comes round
-- while nobody runs, ticks above all, would be a hundred.
assert(wakeups <= 30, wakeups .. " wakeups")
io.stderr:write(string.format("%.1f ms of processor time, %d wakeups in %g s\n", cpu * 1e3, wakeups, seconds))
print "ok"
