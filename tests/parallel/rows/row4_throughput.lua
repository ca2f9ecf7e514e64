-- 10,000 tasks that compute: threads <= cores + 2, and the one that compiles.
package.path = "?.lua;" .. package.path
local pl, os_view = require "perilune", require "threads"
local pool = pl.pool.new {}
local function work(n)
  local s = 0
  for i = 1, n do s = s + i % 7 end
  return s
end
local before = os_view.threads()
local tasks, most = {}, 0
for i = 1, 10000 do
  tasks[i] = pool:async(work, 2000)
  if i % 1000 == 0 then most = math.max(most, os_view.threads()) end
end
for i = 1, #tasks do
  tasks[i]:await()
  if i % 1000 == 0 then most = math.max(most, os_view.threads()) end
end
assert(most - before <= pool:workers() + 3, "threads: " .. before .. " before, " .. most .. " at most")
print "ok"
