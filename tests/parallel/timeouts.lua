-- Time limits: pl.timeout nests and leaves nothing behind; whatever waits takes one; pl.shield.
local pl = require "perilune"

print(pl.timeout(0.01, pl.sleep, 100))
print(pl.timeout(100, function(...) return "in time", ... end, nil, 2))
print(pl.timeout(0, pl.sleep, 100))
print(pl.timeout(math.huge, function() return "no limit" end))
print(pl.timeout(0.01, function() while true do end end))
print(pl.timeout(2, function() return "outer goes on", pl.timeout(0.01, pl.sleep, 100) end))
print(pl.timeout(0.01, function() return "inner", pl.timeout(100, pl.sleep, 100) end))
print(select(2, pcall(pl.timeout, 100, function() error({}) end)) ~= nil)
print(pcall(pl.timeout, 0 / 0, print))
print(pcall(pl.timeout, -(0 / 0), print))
print(pcall(pl.timeout, "1", print))
print(pcall(pl.timeout, 1))

-- what it has started is over with it, and pcall keeps nothing
local log = {}
print(pl.timeout(0.02, function()
  pl.fiber(function()
    local c <close> = setmetatable({}, { __close = function() log[#log + 1] = "fiber" end })
    pl.sleep(100)
  end)
  local c <close> = setmetatable({}, { __close = function() pl.sleep(0.01) log[#log + 1] = "body" end })
  while true do pcall(pl.sleep, 100) end
end))
print(table.concat(log, " "))

-- what has returned has returned
local n = 0
for i = 1, 200 do
  local a, b = pl.timeout(0.0005, function() pl.sleep(0.0005) return "done" end)
  if a == "done" or a == nil and b == "timeout" then n = n + 1 end
end
print(n)

-- a message that a cancelled receiver was given is not lost: either it has it, or the channel
local got, lost = 0, 0
for i = 1, 200 do
  local c = pl.channel.new()
  pl.after(0.0003, function() c:send(i) end)
  local v
  pl.timeout(0.0003, function() v = c:recv() end)
  if v == nil then v = c:recv(10) end
  if v == nil then lost = lost + 1 else got = got + 1 end
end
print(got, lost)

-- everything that waits takes a limit
local pool = pl.pool.new { workers = 2 }
local slow = pool:async(function() require "perilune".sleep(0.5) return "slow" end)
local d = pl.domain.spawn(function() require "perilune".sleep(0.5) return "domain" end)
local c = pl.channel.new(0)
local s = pl.semaphore(1)
s:acquire()
print("await", slow:await(0.005))
print("await", slow:await { timeout = 0 })
print("join", d:join(0.005))
print("recv", c:recv(0.005))
print("recv", c:recv { timeout = 0.005 })
print("send", c:send_timeout(0.005, 1))
print("acquire", s:acquire(0.005))
print("permit", s:permit { timeout = 0 })
print("await_all", pl.await_all { slow, timeout = 0.005 })
print("await_any", pl.await_any { slow, timeout = 0.005 })
print("select", pl.select { c, slow, timeout = 0.005 })
print("fiber", pl.fiber(pl.sleep, 100):await(0.005))
print(slow:await(100), d:join(100))

-- a shield is left when it is done
print(pl.timeout(0.2, function()
  pl.shield(function() pl.sleep(0.4) print "done" end)
  print "never"
end))
print(pcall(pl.shield, error, "raised", 0))
