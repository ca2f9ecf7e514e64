-- A task distributor: one channel full of tasks, and domains that take from it.
--
--   perilune main.lua [N] [--domains D]
--
-- Computes k! modulo a prime for all k from 1 to N (500) on D domains (4). Whoever is free receives the next k, so long and
-- short tasks need no plan. Closing the channel tells the workers that nothing more will come: their loops end when it is empty.
-- Results go into a shared array, each to an element of its own.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local domains <const>, n <const> = job.arguments("distributor", "--domains", 4, 500)
local PRIME <const> = 1000000007

local function factorial(k)
  local product = 1
  for i = 2, k do product = product * i % PRIME end
  return product
end

-- Takes tasks until there are no more. Returns how many it took.
local function worker(tasks, results)
  local taken = 0
  for k in tasks do
    results[k] = factorial(k)
    taken = taken + 1
  end
  return taken
end

local function distribute()
  local tasks, results = pl.channel.new(nil, "tasks"), pl.array("i64", n)
  local running, taken = {}, 0
  for d = 1, domains do running[d] = pl.domain.spawn("worker " .. d, worker, tasks, results) end
  for k = 1, n do tasks:send(k) end
  tasks:close()
  for _, domain in ipairs(running) do taken = taken + domain:join() end
  return results, taken
end

local results, taken = job.timed(distribute)
local product = 1
for k = 1, n do
  product = product * k % PRIME
  if results[k] ~= product then job.fail("%d! is %d, not %d", k, product, results[k]) end
end
print(string.format("%d tasks done, %d! = %d (mod %d)", taken, n, results[n], PRIME))
