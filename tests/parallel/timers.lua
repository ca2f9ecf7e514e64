-- Time: sleeping, timers, and that nothing waits for ever.
local pl = require "perilune"

local t = pl.now()
pl.sleep(0.02)
local slept = pl.now() - t
print(slept >= 0.02, slept < 1)
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
print(timer:cancel(), timer:cancel())
pl.sleep(0.02)
local left = #c
pl.sleep(0.02)
print(left == #c, beats < 10)
local never = pl.after(3600, error)
print(never:cancel())
print(pcall(pl.sleep, 0 / 0))
print(pcall(pl.every, 0, print))

-- sleepers of one domain sleep together
t = pl.now()
local d = pl.domain.spawn(function()
  local c = pl.channel.new()
  for i = 1, 50 do pl.after(0.02, function() c:send(i) end) end
  local n = 0
  for i = 1, 50 do n = n + c:recv() end
  return n
end)
print(d:join(), pl.now() - t < 0.5)
