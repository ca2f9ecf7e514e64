-- Atomics and keys of maps: what is read and written back, while others write.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local a, m = pl.atomic(0), pl.map()

pool:parallel_for(1, 20, function() a:store(a:load() + 1) end)
-- race: 6 6
pool:parallel_for(1, 20, function(i) m:set(i % 2, (m:get(i % 2) or 0) + 1) end)
-- race: 8 8

-- Two tasks, with other things in between.
local function slow()
  local v = m:get("x") or 0
  m:get("y")
  v = v + #tostring(v)
  m:set("x", v)
end
pl.await_all { pool:async(slow), pool:async(slow) }
-- race: 16 16

-- Asked for twice.
pool:parallel_for(1, 20, function(i)
  if not m:get("first") then m:set("first", 0) end
  m:set("first", m:get("first") + 1)
end)
-- race: 24 24
-- maybe: 23 23
-- maybe: 23 24

-- One only writes: what it writes may be lost.
local function reset() a:store(0) end
local t, u = pool:async(function()
  local v = a:load()
  a:store(v * 2)
end), pool:async(reset)
t:await() u:await()
-- race: 31 34

-- The main program does not wait for the task.
t = pool:async(function()
  m:set("n", (m:get("n") or 0) + 1)
end)
m:set("n", (m:get("n") or 0) + 1)
t:await()
-- race: 41 43

-- A value that is not a number, in a spawned domain.
local list = pl.atomic("")
local d = pl.domain.spawn(function()
  list:store(list:load() .. "d")
end)
list:store(list:load() .. "m")
d:join()
-- race: 50 52

-- In one step nothing is lost, whatever else is done.
local n, k = pl.atomic(0), pl.map()
pool:parallel_for(1, 50, function(i)
  n:add(1)
  n:update(function(v) return v + 1 end)
  repeat
    local v = n:load()
  until n:cas(v, v + 1)
  k:add("a")
  k:update("b", function(v) return (v or 0) + 1 end)
  repeat
    local v = k:get("c")
  until k:cas("c", v, (v or 0) + 1)
  list:exchange("")
end)
assert(n:load() == 150 and k:get("a") == 50 and k:get("b") == 50 and k:get("c") == 50)

-- Nor if something else orders them.
local function bump()
  n:store(n:load() + 1)
  k:set("a", k:get("a") + 1)
end
bump()
pool:async(bump):await()
bump()
pl.domain.spawn(bump):join()
local lane = pool:lane "l"
for _ = 1, 10 do lane:async(bump) end
lane:async(bump):await()
local lock = pl.channel.new(1)
local function locked()
  for _ = 1, 20 do
    lock:send(true)
    bump()
    lock:recv()
  end
end
pl.await_all { pool:async(locked), pool:async(locked) }
local taken = pl.atomic(0)
pool:parallel_for(1, 20, function()
  while taken:load() ~= 0 or not taken:cas(0, 1) do pl.sleep(0) end
  bump()
  taken:store(0)
end)
assert(n:load() == 150 + 4 + 11 + 40 + 20)

-- Flags that one sets and another sees; values that each writes to a key of its own.
local ready = pl.atomic(false)
d = pl.domain.spawn(function() ready:store(true) end)
while not ready:load() do pl.sleep(0) end
d:join()
pool:parallel_for(1, 20, function(i) k:set(i, (k:get(i) or 0) + i) end)
for i = 1, 20 do k:set(i, k:get(i) + 1) end
