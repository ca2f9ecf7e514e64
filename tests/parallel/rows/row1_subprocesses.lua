-- 200 subprocesses, one after another, through a pool: at most 3 threads more than before, memory flat.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local pool = pl.pool.new { workers = 4 }
local function run(i)
  local p <close> = io.popen("echo " .. i)
  return tonumber(p:read "a")
end
assert(pool:async(run, 0):await() == 0)
local threads, best, memory = os_view.threads(), nil, nil
-- A worker that another process displaces costs one more thread: the best of a few rounds counts.
for round = 1, 3 do
  local most = 0
  for i = 1, 200 do
    assert(pool:async(run, i):await() == i)
    most = math.max(most, os_view.threads())
    memory = memory or i == 20 and os_view.resident_kb() or nil
  end
  if not best or most < best then best = most end
  if best <= threads + 3 then break end
  pl.sleep(3)
end
assert(best <= threads + 3, "threads: " .. threads .. " before, " .. best .. " at most")
local grown = os_view.resident_kb() - memory
assert(grown < 4096, "resident memory grew by " .. grown .. " KiB")
print "ok"
