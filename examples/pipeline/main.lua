-- A pipeline: stages on domains of their own, with a channel from each to the next.
--
--   perilune main.lua [N] [--workers W]
--
-- Which number up to N (5000) takes the most steps of the Collatz rule to come down to 1? The first stage sends batches of
-- numbers, W domains (2) count steps, the last one keeps the best. The channels hold a few batches at most: a stage that is
-- faster than the next one waits for it, and memory stays small whatever N is. Each stage ends when its input is closed and empty;
-- of several domains in a stage, the last one to end closes the output.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, n <const> = job.arguments("pipeline", "--workers", 2, 5000)
local BATCH <const> = 100

local function steps(x)
  local count = 0
  while x ~= 1 do
    x = x % 2 == 0 and x // 2 or 3 * x + 1
    count = count + 1
  end
  return count
end

local function source(output)
  for lo = 1, n, BATCH do
    local batch = {}
    for x = lo, math.min(n, lo + BATCH - 1) do batch[#batch + 1] = x end
    output:send(batch)
  end
  output:close()
end

local function counter(input, output, at_work)
  for batch in input do
    local counted = {}
    for i, x in ipairs(batch) do counted[i] = { number = x, steps = steps(x) } end
    output:send(counted)
  end
  if at_work:sub(1) == 0 then output:close() end
end

local function sink(input)
  local best, seen = { number = 0, steps = -1 }, 0
  for batch in input do
    for _, c in ipairs(batch) do
      seen = seen + 1
      if c.steps > best.steps or c.steps == best.steps and c.number < best.number then best = c end
    end
  end
  return best, seen
end

local function run()
  local numbers, counted = pl.channel.new(8, "numbers"), pl.channel.new(8, "counted")
  local at_work = pl.atomic(workers)
  local stages = { pl.domain.spawn("source", source, numbers) }
  for w = 1, workers do stages[#stages + 1] = pl.domain.spawn("counter " .. w, counter, numbers, counted, at_work) end
  local last = pl.domain.spawn("sink", sink, counted)
  for _, stage in ipairs(stages) do stage:join() end
  return last:join()
end

local best, seen = job.timed(run)
if seen ~= n then job.fail("%d numbers have arrived, not %d", seen, n) end
if steps(best.number) ~= best.steps then job.fail("%d does not take %d steps", best.number, best.steps) end
print(string.format("of %d numbers %d takes the most steps: %d", seen, best.number, best.steps))
