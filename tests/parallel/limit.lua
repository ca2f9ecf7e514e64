-- stress: no
-- The limit of the whole program: whoever asks for more gets an error, and everybody goes on.
local pl = require "perilune"

local MB = 1 << 20
local limit = 48 * MB

print(pl.limit{})
for _, bad in ipairs{1, 1.5, "many", true} do print(pcall(pl.limit, {memory = bad})) end
print(pcall(pl.limit, 5))
print(pl.limit{memory = limit}, pl.limit{}, pl.memory().limit)

local highest = 0
local function sample()
  highest = math.max(highest, pl.memory().total)
end
local function check(name, f, ...)
  local ok, e = pcall(f, ...)
  sample()
  print(name, ok, tostring(e):match("^[^\n]*"))
end

-- One domain, each kind of memory.
local function tables()
  local t = {}
  for i = 1, 1e8 do t[i] = {i} end
end
check("tables", tables)
check("a string", string.rep, "x", 100 * MB)
check("growing", function()
  local s = "0123456789"
  while true do s = s .. s end
end)
check("islands", function()
  local keep, t = {}, {}
  for i = 1, 10000 do t[i] = i end
  for i = 1, 1e6 do keep[i] = pl.share(t) end
end)
check("one island", function()
  local t = {}
  for i = 1, 2000000 do t[i] = i end
  return pl.share{t, 1, pl.share{t, 2}}
end)
check("arrays", function()
  local keep = {}
  for i = 1, 1e6 do keep[i] = pl.array("f64", 100000) end
end)
check("one array", pl.array, "u8", 100 * MB)
check("messages", function()
  local c = pl.channel.new()
  for i = 1, 1e8 do c:send{i} end
end)
-- What has no memory of its own takes that of the queue.
check("numbers", function()
  local c = pl.channel.new()
  for i = 1, 1e8 do c:send(i) end
end)
check("tasks", function()
  local gate = pl.channel.new()
  local pool <close> = pl.pool.new{workers = 1}
  local opens <close> = gate
  local function nothing() end
  pool:async(function() gate:recv() end)
  for i = 1, 1e8 do pool:async(nothing) end
end)
check("a map", function()
  local m = pl.map()
  for i = 1, 1e8 do m:set("key " .. i, "value " .. i) end
end)

-- What is given up is found: no error, however much it is in all.
check("garbage of all kinds", function()
  for i = 1, 2000 do
    local c, m = pl.channel.new(), pl.map()
    c:send(string.rep("x", 100000))
    c:send(c)
    m:set(i, pl.share{pl.array("f64", 10000), string.rep("y", 50000)})
    sample()
  end
  return "done"
end)

-- Other domains.
local function hog()
  local t = {}
  for i = 1, 1e8 do t[i] = {i} end
end
check("a domain", function() pl.domain.spawn(hog):join() end)
check("a task", function() pl.pool.new{workers = 1}:async(hog):await() end)

-- Four that want everything, while this one does little and is not disturbed.
local greedy, start, ready = {}, pl.channel.new(), pl.channel.new()
-- Whatever it is that is refused, it can be done once more.
local function insist(f, ...)
  local ok, e
  repeat ok, e = pcall(f, ...) until ok or e ~= "not enough memory"
  if not ok then error(e, 0) end
  return e
end
for i = 1, 4 do
  greedy[i] = pl.domain.spawn(function()
    -- Made before memory is short.
    local failed = 0
    local function fill()
      local t = {}
      for i = 1, 1e8 do t[i] = {i} end
    end
    local function fail()
      while failed < 3 do
        local ok, e = pcall(fill)
        if e ~= "not enough memory" then error(e) end
        failed = failed + 1
      end
      return failed
    end
    -- What crosses is made when it is used for the first time, and the stack grows as calls get deeper.
    insist(insist, insist, insist, insist, insist, insist, type, fail)
    ready:send(true)
    insist(start.recv, start)
    return insist(fail)
  end)
end
for _ = 1, 4 do ready:recv() end
for i = 1, 4 do insist(start.send, start, i) end
local modest = 0
local ended = false
repeat
  for i = 1, 1000 do
    local t = {i, tostring(i)}
    modest = modest + #t
  end
  sample()
  ended = true
  for i = 1, 4 do ended = ended and greedy[i]:status() == "ended" end
  pl.sleep(0.001)
until ended
-- What a domain had is given back a little after its end.
local function wait_for_room()
  collectgarbage()
  for _ = 1, 5000 do
    if pl.memory().total < limit // 2 then return end
    pl.sleep(0.002)
  end
end
wait_for_room()
for i = 1, 4 do print("greedy", greedy[i]:join()) end
print("modest", modest > 0)

-- One that takes all it can get in pieces of decreasing size, and keeps it, beside small objects here.
local ways = {
  {"strings", function(size) return ("x"):rep(size) end},
  {"arrays", function(size) return pl.array("u8", size) end},
  {"islands", function(size) return pl.share{("x"):rep(size)} end},
  {"messages", function(size)
    local c = pl.channel.new()
    c:send(("x"):rep(size))
    return c
  end},
}
for _, way in ipairs(ways) do
  local name, take = way[1], way[2]
  local full, go = pl.channel.new(), pl.channel.new()
  local taker = pl.domain.spawn(function()
    local keep = {}
    local size = 16 * MB
    while size >= 16384 do
      if not pcall(function() keep[#keep + 1] = take(size) end) then size = size // 2 end
    end
    full:send(pl.memory().total > limit * 3 // 4)
    go:recv()
  end)
  print(name, full:recv(), pcall(function()
    local made = 0
    for i = 1, 200000 do made = made + #{i, tostring(i)} end
    return made
  end))
  go:close()
  pcall(taker.join, taker)
  wait_for_room()
end

print("at most", highest <= limit + 4 * MB or highest)
print(pl.limit{memory = false} == limit, pl.limit{}, pl.memory().limit)
-- Without a limit, more than that.
local keep = {}
for i = 1, 60 do keep[i] = string.rep("x", MB) end
print(#keep, pl.memory().heaps > 60 * MB)
