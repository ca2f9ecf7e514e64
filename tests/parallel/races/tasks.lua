-- Tasks, domains and the main program that do not wait for each other.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local a = pl.array("f64", 10)

local t = pool:async(function() a[1] = 1 end)
local u = pool:async(function() a[1] = 2 end)
pl.await_all { t, u }
a[1] = 3
-- race: 6 7

local d = pl.domain.spawn(function()
  a[2] = 1
end)
local seen = a[2]
d:join()
assert(a[2] == 1)
-- race: 13 15

-- After the message is sent.
local c = pl.channel.new()
d = pl.domain.spawn(function()
  a[3] = 1
  c:send(true)
  a[4] = 1
end)
c:recv()
a[3] = 2
a[4] = 2
d:join()
-- race: 25 29

-- Methods touch all their elements, and slices those of what they are slices of.
local s = a:slice(5, 8)
t = pool:async(function() s:fill(1) end)
u = pool:async(function() return a:sum(8, 9) end)
t:await() u:await()
-- race: 35 36
t = pool:async(function() a:copy({ 1, 2 }, 6) end)
u = pool:async(function() return s:totable(2, 2) end)
t:await() u:await()
-- race: 39 40
t = pool:async(function() return a:copy(s, 9, 1, 2) end)
u = pool:async(function() a[10] = 1 end)
t:await() u:await()
-- race: 43 44

-- An element that says when another one is there orders nothing: an atomic does.
local ready = pl.array("u8", 1)
d = pl.domain.spawn(function()
  a[5] = 7
  ready[1] = 1
end)
while ready[1] == 0 do pl.sleep(0) end
assert(a[5] == 7)
d:join()
-- race: 51 55
-- race: 52 54
