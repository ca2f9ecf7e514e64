-- N + 1 tasks chained by channels on N workers, many times: waiting holds no worker.
local pl = require "perilune"
local rounds = tonumber(arg[1]) or 2000
local n = 2
local pool = pl.pool.new { workers = n }
local function link(from, to) to:send(from:recv() + 1) end
for round = 1, rounds do
  local c = {}
  for i = 1, n + 2 do c[i] = pl.channel.new(0) end
  -- The last one first, so that each waits for one that has not been started.
  local tasks = {}
  for i = n + 1, 1, -1 do tasks[#tasks + 1] = pool:async(link, c[i], c[i + 1]) end
  c[1]:send(round)
  assert(c[n + 2]:recv() == round + n + 1)
  for _, t in ipairs(tasks) do t:await() end
end
print "ok"
