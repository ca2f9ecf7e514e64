-- Random numbers for a large array: each part has a generator of its own.
--
--   perilune main.lua [N] [--workers W]
--
-- Fills an array of N numbers (100000) from [0, 1) on a pool of W domains (2). One generator for all would be a queue in
-- which the domains wait for each other. Here the array is divided into 64 parts, and the task that fills a part makes its
-- generator, seeded with the number of the part: no domain touches what another one writes, and the numbers are
-- the same however many domains there are.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, n <const> = job.arguments("float_init", "--workers", 2, 100000)
local PARTS <const> = 64

-- Where a part of the array begins and ends.
local function bounds(part) return n * (part - 1) // PARTS + 1, n * part // PARTS end

-- A generator of numbers from [0, 1): xorshift64*, the upper 53 bits.
local function generator(seed)
  local state = seed * 0x9E3779B97F4A7C15
  return function()
    state = state ~ (state >> 12)
    state = state ~ (state << 25)
    state = state ~ (state >> 27)
    return (state * 0x2545F4914F6CDD1D >> 11) * 0x1p-53
  end
end

local function fill(pool, array)
  pool:parallel_for(1, PARTS, function(part)
    local random = generator(part)
    local lo, hi = bounds(part)
    for i = lo, hi do array[i] = random() end
  end, { chunk = 1 })
end

local pool <const> = pl.pool.new { workers = workers, name = "init" }
local array <const> = pl.array("f64", n)
job.timed(fill, pool, array)
pool:close()

-- Some parts again, in this domain, and what random numbers look like.
for part = 1, PARTS, 21 do
  local random = generator(part)
  local lo, hi = bounds(part)
  for i = lo, math.min(hi, lo + 999) do
    if array[i] ~= random() then job.fail("element %d is wrong", i) end
  end
end
local mean = array:sum() / n
if n >= 10000 and math.abs(mean - 0.5) > 0.02 then job.fail("the mean is %f", mean) end
print(string.format("%d numbers, mean %.4f, first %.6f, last %.6f", n, mean, array[1], array[n]))
