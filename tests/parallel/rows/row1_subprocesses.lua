-- 200 subprocesses, one after another, through a pool: at most 3 threads more than before, memory flat.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local pool = pl.pool.new { workers = 4 }
local function run(i)
  local p <close> = io.popen("echo " .. i)
  return tonumber(p:read "a")
end
assert(pool:async(run, 0):await() == 0)
local threads, memory, most = os_view.threads(), nil, 0
for i = 1, 200 do
  assert(pool:async(run, i):await() == i)
  most = math.max(most, os_view.threads())
  if i == 20 then memory = os_view.resident_kb() end
end
assert(most <= threads + 3, "threads: " .. threads .. " before, " .. most .. " at most")
local grown = os_view.resident_kb() - memory
assert(grown < 4096, "resident memory grew by " .. grown .. " KiB")
print "ok"
