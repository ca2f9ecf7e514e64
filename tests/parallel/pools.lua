-- Pools: tasks, results, errors, nesting, cancelling, closing.
local pl = require "perilune"

local function first_line(s) return (tostring(s):match "^[^\n]*") end

local pool = pl.pool.new { workers = 3, name = "p" }
print(pool, pool:workers())
local t = pool:async(function(a, b) return a * b, "second" end, 6, 7)
print(t:await())
print(t:await())
print(t:status())

local function fib(n)
  if n < 2 then return n end
  return fib(n - 1) + fib(n - 2)
end
local function fib_par(pool, n)
  if n < 12 then return fib(n) end
  local a = pool:async(fib_par, pool, n - 1)
  local b = pool:async(fib_par, pool, n - 2)
  return a:await() + b:await()
end
print(fib_par(pool, 18), fib(18))

-- errors
t = pool:async(function() error("task failed") end)
local ok, e = pcall(t.await, t)
print(ok, first_line(e), e:find("traceback", 1, true) ~= nil, t:status())
t = pool:async(function() error({ code = 5 }) end)
ok, e = pcall(t.await, t)
print(ok, e.code)

-- await_all, await_any
local tasks = {}
for i = 1, 10 do tasks[i] = pool:async(function(i) return i * i end, i) end
print(pl.await_all(tasks))
local gate = pl.channel.new()
local slow = pool:async(function() return gate:recv() end)
local quick = pool:async(function() return "quick", 2 end)
print(pl.await_any { slow, quick })
gate:send("slow")
print(slow:await())
print(pcall(pl.await_any, {}))
tasks[5] = pool:async(function() error("fifth", 0) end)
ok, e = pcall(pl.await_all, tasks)
print(ok, first_line(e))

-- many tasks that wait for each other on few workers
local n = 200
local links = {}
for i = 1, n + 1 do links[i] = pl.channel.new(0) end
local chain = {}
for i = 1, n do
  chain[i] = pool:async(function(from, to) to:send(from:recv() + 1) end, links[i], links[i + 1])
end
links[1]:send(0)
print(links[n + 1]:recv())

-- cancelling
t = pool:async(function() while true do end end)
pl.sleep(0.01)
print(t:cancel(), pcall(t.await, t))
t = pool:async(function() return gate:recv() end)
pl.sleep(0.01)
print(t:cancel(), pcall(t.await, t))
print(t:cancel(), t:status())
local closed = pl.atomic(0)
local begun = pl.channel.new()
t = pool:async(function()
  local guard <close> = setmetatable({}, { __close = function() closed:add(1) end })
  begun:send(true)
  pcall(function() gate:recv() end)
  closed:add(100)
end)
begun:recv()
pl.sleep(0.05)
t:cancel()
print(pcall(t.await, t))
print(closed:load())

-- a task in another task's domain, values that tasks may and may not use
total = 1
ok, e = pcall(function() return pool:async(function() total = 2 end):await() end)
print(ok, first_line(e))
print(pool:async(function() return total end):await())

pool:close()
print(pcall(pool.async, pool, print))
print(pcall(function() pool:parallel_for(1, 2, print) end))
print(pcall(pl.pool.new, { workers = 0 }))
print(pl.pool.default() == pl.pool.default())
