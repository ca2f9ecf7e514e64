-- Fibonacci numbers with async and await: tasks that make tasks and wait for them.
--
--   perilune main.lua [N] [CUTOFF] [--workers W]
--
-- Computes fib(N) (24) the slow way, on a pool of W domains (2). Above CUTOFF (14) each call makes two tasks and awaits
-- them; below it the work is too small to be worth a task. A task that awaits holds no thread and no domain: thousands of them
-- wait while two work.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, n <const>, cutoff <const> = job.arguments("fib", "--workers", 2, 24, 14)

local function fib(n)
  if n < 2 then return n end
  return fib(n - 1) + fib(n - 2)
end

local function fib_par(pool, n)
  if n <= cutoff then return fib(n) end
  local a = pool:async(fib_par, pool, n - 1)
  local b = pool:async(fib_par, pool, n - 2)
  return a:await() + b:await()
end

local pool <const> = pl.pool.new { workers = workers, name = "fib" }
local result = job.timed(fib_par, pool, n)
pool:close()

local a, b = 0, 1
for _ = 1, n do a, b = b, a + b end
if result ~= a then job.fail("fib(%d) is %d, not %s", n, a, tostring(result)) end
print(string.format("fib(%d) = %d", n, result))
