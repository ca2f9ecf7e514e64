-- A wait that nothing can end is an error that says who waits for what, where.
local pl = require "perilune"
local function show(ok, e)
  print(ok)
  for line in tostring(e):gmatch "[^\n]+" do
    if line:find "waits" or line:find "deadlock" then print((line:gsub("0x%x+", "ADDR"))) end
  end
end
local c = pl.channel.new(0, "lonely")
show(pcall(function() return c:recv() end))
show(pcall(function() return c:send(1) end))
local d = pl.domain.spawn("other", function() return pl.channel.new(0, "inner"):recv() end)
local ok, e = pcall(function() return d:join() end)
print(ok, e:find("deadlock", 1, true) ~= nil, e:find("waits to receive from channel 'inner'", 1, true) ~= nil)
-- two domains that wait for each other
local a, b = pl.channel.new(0, "a"), pl.channel.new(0, "b")
local x = pl.domain.spawn("x", function() local v = a:recv() b:send(v) return "x is done" end)
ok = pcall(function() return b:recv() end)
print(ok, pcall(x.join, x) == false)
-- a timer keeps hope alive
pl.after(0.02, function() a:send("hello") end)
print(a:recv())
print(c:recv_timeout(0.01))
