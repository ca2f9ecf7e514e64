-- Prefix sums: every sum of the first i elements, though each needs the one before it.
--
--   perilune main.lua [N] [--workers W]
--
-- Sums an array of N numbers (10000) on a pool of W domains (2). `parallel_scan` sums parts, then their sums, then adds to
-- each part what lies before it: more work than a plain loop has, on more domains. Any associative function will do, and
-- the order of its operands is kept; so at the end words are scanned with `..`.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, n <const> = job.arguments("prefix_sum", "--workers", 2, 10000)

local function add(a, b) return a + b end
local function join(a, b) return a .. b end

local numbers <const> = pl.array("i64", n)
for i = 1, n do numbers[i] = i * 7919 % 1000 end

local pool <const> = pl.pool.new { workers = workers, name = "scan" }
local sums = job.timed(pool.parallel_scan, pool, numbers, add)
local words = pool:parallel_scan({ "a", "ba", "cus", "es" }, join)
pool:close()

local sum = 0
for i = 1, n do
  sum = sum + numbers[i]
  if sums[i] ~= sum then job.fail("the sum of %d elements is %d, not %d", i, sum, sums[i]) end
end
print(string.format("the sums of %d numbers end with %d", n, sums[n]))
print(table.concat(words, " "))
