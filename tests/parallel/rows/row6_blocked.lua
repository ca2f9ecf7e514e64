-- 300 tasks in a blocking call that wait for task 301; and the same with popen.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local name = os.tmpname()
os.remove(name)
assert(os.execute("mkfifo " .. name))
local n = tonumber(arg[1]) or 300
local started = pl.atomic(0)
local tasks = {}
for i = 1, n do
  tasks[i] = pool:async(function()
    started:add(1)
    -- Ends when somebody has opened the pipe for writing and closed it.
    local p <close> = io.popen("cat " .. name .. "; echo done")
    return p:read "a"
  end)
end
local t = pl.now()
local last = pool:async(function() return pl.now() end)
local ran = last:await() - t
-- The others wait for what comes after this: it runs while they block, or never.
assert(ran < (tonumber(arg[2]) or math.huge), "task " .. n + 1 .. " ran after " .. ran .. " s")
while started:load() < n do pl.sleep(0.01) end
-- One writer that stays until all readers are there.
local writer = io.open(name, "r+")
pl.sleep(0.2)
for i = 1, n do writer:write "x\n" end
writer:close()
local left = n
while left > 0 do
  local again = io.popen("timeout 1 sh -c ': > " .. name .. "'")
  again:close()
  left = 0
  for i = 1, n do if tasks[i]:status() == "pending" then left = left + 1 end end
end
for i = 1, n do assert(tasks[i]:await():match "done") end
os.remove(name)
io.stderr:write(string.format("task %d ran after %.3f s\n", n + 1, ran))
print "ok"
