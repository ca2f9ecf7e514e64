-- A task that spins for ever stops no timer and no task of any other domain.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local spinning = pool:async(function() while true do end end)
pl.domain.spawn(function() while true do end end)
local late = 0
for i = 1, 20 do
  local t = pl.now()
  pl.sleep(0.005)
  late = math.max(late, pl.now() - t - 0.005)
end
for i = 1, 100 do assert(pool:async(function(i) return i end, i):await() == i) end
local d = pl.domain.spawn(function() return "other domain" end)
print(d:join())
-- A task that nothing interrupts would keep the timer waiting for ever.
assert(late < 30, "late by " .. late)
spinning:cancel()
assert(not pcall(spinning.await, spinning))
print "ok"
