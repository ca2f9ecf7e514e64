-- Time: sleeping, timers, and that nothing waits for ever.
local pl = require "perilune"

local t = pl.now()
pl.sleep(0.02)
local slept = pl.now() - t
print(slept >= 0.02)
pl.sleep(0) pl.sleep(-1)

local c = pl.channel.new()
pl.after(0.02, function(...) c:send("after", ...) end, 1, 2)
print(c:recv())
local beats = 0
local timer
timer = pl.every(0.005, function(beat)
  beats = beats + 1
  c:send(beat)
end)
local b1, b2, b3 = c:recv(), c:recv(), c:recv()
print(b1 == 1, b1 < b2, b2 < b3)
-- Whether a beat was due at this moment decides what this one says; after it there is none.
timer:cancel()
local done = beats
pl.sleep(0.02)
print(beats == done, timer:cancel())
local slow = pl.every(3600, error)
-- Its fiber waits when one that was made later has run.
pl.after(0, function() c:send "now" end)
repeat until c:recv() == "now"
print(slow:cancel(), slow:cancel())
local never = pl.after(3600, error)
print(never:cancel())
print(pcall(pl.sleep, 0 / 0))
print(pcall(pl.every, 0, print))

-- sleepers of one domain sleep together
t = pl.now()
local d = pl.domain.spawn(function()
  local c = pl.channel.new()
  for i = 1, 50 do pl.after(0.5, function() c:send(i) end) end
  local n = 0
  for i = 1, 50 do n = n + c:recv() end
  return n
end)
print(d:join(), pl.now() - t < 20)
