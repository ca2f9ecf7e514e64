-- Task A is parked in recv; task B of the same domain is in a blocking popen whose child ends only after A has acted.
local pl = require "perilune"
local pool = pl.pool.new { workers = 1 }
local name = os.tmpname()
os.remove(name)
local c = pl.channel.new()
local a = pool:async(function()
  c:recv()
  assert(io.open(name, "w")):close()
  return "a has acted"
end)
local b = pool:async(function()
  local p <close> = io.popen("while [ ! -e " .. name .. " ]; do sleep 0.01; done; echo seen")
  return p:read "a"
end)
pl.sleep(0.05)
c:send(true)
print(a:await())
io.write(b:await())
os.remove(name)

-- The same with the main program in the part of A, then of B.
local timer_ran = pl.channel.new()
pl.after(0.02, function()
  local p <close> = io.popen("while [ ! -e " .. name .. " ]; do sleep 0.01; done; echo seen")
  timer_ran:send(p:read "a")
end)
pl.sleep(0.1)
assert(io.open(name, "w")):close()
io.write(timer_ran:recv())
os.remove(name)
pl.after(0.02, function() assert(io.open(name, "w")):close() end)
local p <close> = io.popen("while [ ! -e " .. name .. " ]; do sleep 0.01; done; echo seen")
io.write(p:read "a")
os.remove(name)
