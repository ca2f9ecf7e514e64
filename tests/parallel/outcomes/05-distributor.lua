-- The task distributor: a recursive local function that captures a channel; messages are small tables.
local pl = require "perilune"
local c, results = pl.channel.new(), pl.channel.new()
local function factorial(n) return n == 0 and 1 or n * factorial(n - 1) end
local function worker()
  local m = c:recv()
  if m.quit then return "done" end
  results:send({ n = m.task, value = factorial(m.task) })
  return worker()
end
for i = 0, 9 do c:send { task = i } end
for _ = 1, 3 do c:send { quit = true } end
local d = { pl.domain.spawn(worker), pl.domain.spawn(worker) }
worker()
for i = 1, 2 do print(d[i]:join()) end
local list = {}
for _ = 1, 10 do
  local r = results:recv()
  list[r.n + 1] = r.value
end
print(table.concat(list, " "))
