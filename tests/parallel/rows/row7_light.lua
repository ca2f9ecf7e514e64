-- Cap 1000 and a light load: a few threads.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local before = os_view.threads()
local pool = pl.pool.new { workers = 1000 }
local most = 0
for i = 1, 200 do
  assert(pool:async(function(i) return i end, i):await() == i)
  most = math.max(most, os_view.threads())
end
pool:close()
-- Three where the processors are ours; each worker that another process displaces costs one more. A thread for each task would be 200.
local limit = tonumber(arg[1]) or 40
assert(most - before <= limit, "threads: " .. before .. " before, " .. most .. " at most")
print "ok"
