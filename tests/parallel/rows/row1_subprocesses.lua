-- 200 subprocesses, one after another, through a pool: a few threads, memory flat.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local pool = pl.pool.new { workers = 4 }
local function run(i)
  local p <close> = io.popen("echo " .. i)
  return tonumber(p:read "a")
end
assert(pool:async(run, 0):await() == 0)
local threads, most, memory = os_view.threads(), 0, nil
for i = 1, 200 do
  assert(pool:async(run, i):await() == i)
  most = math.max(most, os_view.threads())
  memory = memory or i == 20 and os_view.resident_kb() or nil
end
-- Three where the processors are ours; each worker that another process displaces costs one more. A thread for each process would be 200.
local limit = tonumber(arg[1]) or 40
assert(most <= threads + limit, "threads: " .. threads .. " before, " .. most .. " at most")
local grown = os_view.resident_kb() - memory
assert(grown < 4096, "resident memory grew by " .. grown .. " KiB")
print "ok"
