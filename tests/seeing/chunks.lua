-- Why does this parallel loop not get faster with more domains?
--
--   perilune latency chunks.lua             the chunk is as large as the loop
--   perilune latency chunks.lua 0           no chunk: the loop divides itself
--   perilune latency chunks.lua 8 late      small chunks, but one iteration is most of the work

local pl = require "perilune"

local chunk <const> = tonumber(arg[1]) or 256
local late <const> = arg[2] == "late"

local pool = pl.pool.new { workers = 2, name = "mill" }
local sums = pl.array("i64", 256)

pool:parallel_for(1, 256, function(i)
  local s = 0
  local steps = 20000
  if late then steps = i == 200 and 5000000 or 500 end
  for n = 1, steps do s = (s * 31 + n) % 1000003 end
  sums[i] = s
end, chunk > 0 and { chunk = chunk } or nil)

print(sums:sum())
pool:close()
