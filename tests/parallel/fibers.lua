-- pl.fibers: the fibers of the calling domain, what they are at, what they wait for.
local pl = require "perilune"
local net = require "perilune.net"

local function text(s) return s and (s:gsub("127%.0%.0%.1:%d+", "ADDR")) or "-" end

local function list()
  local all = pl.fibers()
  for n, f in ipairs(all) do
    assert(f.age >= 0 and (n == 1 or f.age <= all[n - 1].age))
    assert((f.state == "waits") == (f.waits ~= nil) and (f.waits ~= nil) == (f.waited ~= nil))
    assert(not f.waited or f.waited >= 0 and f.waited <= f.age)
    print(text(f.name), f.state, text(f.waits), text(f.place), f.left and f.left <= 60 and "limited" or "-")
    for _, line in ipairs(f.stack) do print("  " .. text(line)) end
  end
end

print "-- the main program alone"
list()

print "-- waits of all kinds"
local pool = pl.pool.new { workers = 1, name = "mill" }
local gate = pl.channel.new(0, "gate")
pl.scope(function(s)
  local l = net.listen "127.0.0.1:0"
  local function accepts() l:accept() end
  s:daemon(accepts)
  local f = s:daemon(function() gate:recv_timeout(60) end)
  f:name "timed"
  s:daemon(function()
    local inner = coroutine.wrap(function() gate:recv() end)
    inner()
  end)
  local begun = pl.channel.new(1)
  local task = pool:async(function()
    begun:send(true)
    gate:recv()
  end)
  begun:recv()
  local waits = s:daemon(function() task:await() end)
  pl.yield()
  -- It has not begun.
  s:daemon(function() pl.yield() end)
  list()
  gate:close()
end)

print "-- from a fiber, and of another domain"
pl.scope(function(s)
  s:spawn(function() print(#pl.fibers(), pl.fibers()[2].state) end)
end)
print(pl.domain.spawn(function() return #require "perilune".fibers() end):join())
