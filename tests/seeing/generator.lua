-- Why is filling an array with random numbers slower on two domains than on one?
--
--   perilune prof offcpu generator.lua          one generator for all: its state is an atomic that everybody changes
--   perilune prof offcpu generator.lua own      each task has a generator of its own

local pl = require "perilune"

local own <const> = arg[1] == "own"
local n <const> = tonumber(arg[2]) or 400000
local workers <const> = tonumber(arg[3]) or 2

local state = pl.atomic(88172645463325252)
local array = pl.array("f64", n)

local function step(x)
  x = x ~ (x << 13)
  x = x ~ (x >> 7)
  return x ~ (x << 17)
end

local pool = pl.pool.new { workers = workers, name = "init" }
local before = pl.now()
if own then
  pool:parallel_for(1, 64, function(part)
    local x = part * 0x9E3779B97F4A7C15
    for i = n * (part - 1) // 64 + 1, n * part // 64 do
      x = step(x)
      array[i] = (x >> 11) * 0x1p-53
    end
  end)
else
  pool:parallel_for(1, n, function(i)
    array[i] = (state:update(step) >> 11) * 0x1p-53
  end)
end
io.stderr:write(string.format("%.3f s\n", pl.now() - before))
local mean = array:sum() / n
assert(mean > 0.49 and mean < 0.51, mean)
print "filled"
pool:close()
