-- pl.fibers{domain = ...}: what other domains of the program are at; none of them is held up for it.
local pl = require "perilune"

-- Who is not answered hangs.
local function fibers(domain)
  return pl.fibers { domain = domain, timeout = 600 }
end

local function line(f)
  return ("%-22s %-9s %-8s %s%s"):format(f.name, f.domain, f.state, f.waits or "-", f.place and " at " .. f.place or "")
end

local function list(all, stacks)
  for n, f in ipairs(all) do
    assert(f.age >= 0 and (n == 1 or all[n - 1].domain ~= f.domain or f.age <= all[n - 1].age))
    assert((f.state == "waits") == (f.waits ~= nil))
    print(line(f))
    if stacks then for _, l in ipairs(f.stack) do print("  " .. l) end end
  end
end

-- Waits until the fibers of a domain are as many, and all of them at what is expected.
local function settle(domain, count, state)
  while true do
    local all = fibers(domain)
    local good = #all == count
    for _, f in ipairs(all) do good = good and f.state == state end
    if good then return all end
    pl.sleep(0.001)
  end
end

local gate = pl.channel.new(0, "gate")

print "-- one that waits"
local waits = pl.domain.spawn("waits", function()
  pl.scope(function(s)
    s:spawn(function() gate:recv() end):name("first")
    s:spawn(function() local inner = coroutine.wrap(function() gate:recv_timeout(600) end) inner() end)
  end)
end)
list(settle(waits, 3, "waits"), true)
print("of others:", #select(2, fibers(waits)))

print "-- one that computes: it answers, and goes on"
local rounds, stop = pl.atomic(0), pl.atomic(0)
local busy = pl.domain.spawn("busy", function()
  local function compute() while stop:load() == 0 do rounds:add(1) end end
  compute()
  return "done"
end)
while rounds:load() == 0 do end
for _ = 1, 20 do
  local all, missing = fibers(busy)
  assert(#all == 1 and #missing == 0 and all[1].state == "runs", #all)
  assert(all[1].stack[#all[1].stack]:find("fibers_of_domains.lua", 1, true))
  local before = rounds:load()
  while rounds:load() == before do end
end
print(fibers(busy)[1].name)

print "-- all of the program"
local pool = pl.pool.new { workers = 1, name = "mill" }
local begun = pl.channel.new(1)
local task = pool:async(function() begun:send(true) gate:recv() end)
begun:recv()
local names = {}
repeat
  local all, missing = fibers("all")
  assert(#missing == 0)
  local counts = {}
  for _, f in ipairs(all) do counts[f.domain] = (counts[f.domain] or 0) + 1 end
  names = {}
  for name, count in pairs(counts) do names[#names + 1] = name .. " " .. count end
  table.sort(names)
until #names == 4
print(table.concat(names, ", "))
assert(fibers("all")[1].name == "the main program" and fibers("all")[1].state == "runs")

print "-- of each other at once, and of themselves"
local function ask(others, count)
  for _ = 1, count do
    for _, other in ipairs(others) do
      local _, missing = fibers(other)
      assert(#missing == 0)
    end
    local _, missing = fibers("all")
    assert(#missing == 0)
  end
  return #fibers(pl.domain.self()) == #pl.fibers()
end
local first = pl.domain.spawn("asks 1", ask, { waits, busy }, 50)
local second = pl.domain.spawn("asks 2", ask, { waits, busy, first }, 50)
print(ask({ first, second }, 50), first:join(), second:join())

print "-- in a fiber, while others go on; and one that is given up"
pl.scope(function(s)
  local turns = 0
  s:daemon(function() while true do turns = turns + 1 pl.yield() end end)
  s:spawn(function() for _ = 1, 5 do assert(#fibers(waits) == 3) end end)
end)
print(select("#", pl.timeout(600, fibers, waits)))

print "-- one that has ended"
stop:store(1)
print(busy:join())
print(#fibers(busy), #select(2, fibers(busy)))
gate:close()
task:await()
waits:join()

print "-- one in a call of the system, within a finaliser"
local stuck = pl.domain.spawn("stuck", function(begun)
  setmetatable({}, { __gc = function() os.execute("echo > begun; while [ ! -e done ]; do sleep 0.02; done") end })
  collectgarbage()
  return "unstuck"
end)
local file
repeat file = io.open("begun") until file
file:close()
local all, missing = fibers(stuck)
print(#all, table.concat(missing, " "))
all, missing = fibers("all")
print(#all, all[1].domain, table.concat(missing, " "))
io.open("done", "w"):close()
print(stuck:join())

print "-- what is wrong"
print(pcall(pl.fibers, { domains = "all" }))
print(pcall(pl.fibers, { domain = "waits" }))
print(pcall(pl.fibers, { domain = 1 }))
print(pcall(pl.fibers, { timeout = "long" }))
print(#pl.fibers { timeout = 0 }, #select(2, pl.fibers { timeout = 0 }))
