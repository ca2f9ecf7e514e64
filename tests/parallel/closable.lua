-- What a to-be-closed variable does with each kind of handle, at the end of its scope, whether that is a return or an error.
local pl = require "perilune"

-- a pool: refuses new work, waits for the rest
local done = pl.atomic(0)
local kept
do
  local pool <close> = pl.pool.new { workers = 2 }
  kept = pool
  for _ = 1, 20 do pool:async(function() pl.sleep(0.001) done:add(1) end) end
end
print("pool", done:load(), select(2, pcall(kept.async, kept, print)))
print(pcall(function()
  local pool <close> = pl.pool.new { workers = 2 }
  for _ = 1, 20 do pool:async(function() pl.sleep(0.001) done:add(1) end) end
  error("stopped", 0)
end))
print("pool", done:load())
-- in a time limit: the tasks end before the limit's caller goes on
local limit, made, before = 0.005, 0, 0
repeat -- until it was long enough for all tasks to be made
  made, before = 0, done:load()
  local result, why = pl.timeout(limit, function()
    local pool <close> = pl.pool.new { workers = 2 }
    for i = 1, 20 do pool:async(function() pl.sleep(0.005) done:add(1) end) made = i end
    pl.sleep(100)
  end)
  limit = limit * 2
  assert(done:load() == before + made)
  if made == 20 then print(result, why) else done:add(-made) end
until made == 20
print("pool", done:load())
-- a task cannot wait for itself
local pool = pl.pool.new { workers = 1 }
print((select(2, pcall(function()
  return pool:async(function(p) local p <close> = p end, pool):await()
end)):match "^[^\n]*"))
pool:close()

-- a domain: joined, and its error is the scope's if there is none
do
  local d <close> = pl.domain.spawn(function(done) require "perilune".sleep(0.01) done:add(1) end, done)
end
print("domain", done:load())
print((select(2, pcall(function() local d <close> = pl.domain.spawn(function() error("failed", 0) end) end)):match "^[^\n]*"))
print(pcall(function()
  local d <close> = pl.domain.spawn(function() error("failed", 0) end)
  error("stopped", 0)
end))

-- tasks, fibers, timers: cancelled if they have not ended
pool = pl.pool.new { workers = 2 }
local status
do
  local t <close> = pool:async(function() pl.sleep(100) end)
  local ended <close> = pool:async(function() return 1 end)
  ended:await()
  status = function() return (pcall(t.await, t)), t:status(), ended:status() end
end
print("task", status())
pool:close()
pl.scope(function(s)
  local f
  do
    local fiber <close> = s:spawn(function() pl.sleep(100) end)
    f = fiber
  end
  print("fiber", pcall(f.await, f))
  print(f:status())
end)
do
  local timer <close> = pl.every(0.001, function() print "not reached" end)
end
pl.sleep(0.005)
