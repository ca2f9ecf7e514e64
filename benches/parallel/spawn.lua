-- A domain that is made, runs an empty function and ends.
-- bench: group=parallel size=5000 quick=200 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 5000

local function nothing() end

local function each(count)
  local started = pl.now()
  for _ = 1, count do pl.domain.spawn(nothing):join() end
  return (pl.now() - started) / count * 1e6
end

each(50)
local best = math.huge
for _ = 1, n // 50 do best = math.min(best, each(50)) end
print(string.format("domain spawn + join, warm: %.2f us (goal <= 50)", best))
assert(pl.domain.count() == 1)
