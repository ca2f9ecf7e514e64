-- What the losers of a race were about to get is not lost: it stays in connections and channels, for whoever asks next.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"

local function pair()
  local l <close> = net.listen("127.0.0.1:0")
  local a = net.connect(l:endpoint())
  return a, assert(l:accept())
end

print "-- two connections with a line each, at once and a moment later"
do
  local a, b = pair()
  local c, d = pair()
  local lost, late = 0, 0
  for n = 1, 400 do
    local function send() a:write("one\n") c:write("two\n") a:flush() c:flush() end
    if n % 2 == 0 then send() else pl.after(0.0005, send) end
    local who, line = pl.race { function() return b:read_line() end, function() return d:read_line() end }
    assert(line == (who == 1 and "one" or "two"))
    local other, want = who == 1 and d or b, who == 1 and "two" or "one"
    if pl.timeout(10, other.read_line, other) ~= want then lost = lost + 1 end
  end
  print(lost)
end

print "-- two channels, a message each"
do
  local a, b = pl.channel.new(), pl.channel.new()
  local lost = 0
  for n = 1, 1000 do
    local function send() a:send(n) b:send(n) end
    if n % 2 == 0 then send() else pl.after(0.0001, send) end
    local who, got = pl.race { function() return a:recv() end, function() return b:recv() end }
    assert(got == n)
    if (who == 1 and b or a):recv(10) ~= n then lost = lost + 1 end
  end
  print(lost, #a, #b)
end

print "-- from another domain, which sends without end"
do
  local a, b = pl.channel.new(100), pl.channel.new(100)
  local function count(c)
    for n = 1, 3000 do c:send(n) end
    c:close()
  end
  local domains = { pl.domain.spawn(count, a), pl.domain.spawn(count, b) }
  local last = { 0, 0 }
  local open = { a, b }
  while open[1] or open[2] do
    local list, which = {}, {}
    for i = 1, 2 do
      local c = open[i]
      if c then
        list[#list + 1] = function() return c:recv() end
        which[#which + 1] = i
      end
    end
    local who, n = pl.race(list)
    local i = which[who]
    if n then
      if n ~= last[i] + 1 then print("a gap", i, last[i], n) end
      last[i] = n
    else
      open[i] = nil
    end
  end
  print(last[1], last[2])
  for _, d in ipairs(domains) do d:join() end
end

print "-- accepting: the client that nobody has accepted is there for the next"
do
  local l <close> = net.listen("127.0.0.1:0")
  for _ = 1, 50 do
    local c
    pl.after(0.0005, function() c = net.connect(l:endpoint()) end)
    local who = pl.race { function() pl.sleep(0.0005) end, function() return l:accept() end }
    if who == 1 then assert(l:accept(10)) end
    if c then c:close() end
  end
  print "all"
end

print "-- a loser that has not begun does not begin; one that fails loses what it had, and its error wins"
do
  local begun = 0
  print(pl.race { function() return "at once" end, function() begun = begun + 1 end })
  print(begun)
  local a = pl.channel.new()
  a:send "kept"
  local ok, message = pcall(pl.race, { function() error("first", 0) end, function() return a:recv() end })
  print(ok, message:match "^first")
  print(a:recv(0))
end

print "-- closing methods of losers may wait"
do
  local closed = 0
  print(pl.race {
    function() pl.sleep(0.001) return "fast" end,
    function()
      local h <close> = setmetatable({}, { __close = function() pl.sleep(0.01) closed = closed + 1 end })
      pl.sleep(100)
    end,
  })
  print(closed)
end

print "-- semaphores: a permit that a loser has is given back with its variable"
do
  local permits = pl.semaphore(1)
  permits:acquire()
  for _ = 1, 200 do
    pl.after(0.0002, function() permits:release() end)
    local who = pl.race {
      function() local p <close> = permits:permit() end,
      function() local p <close> = permits:permit() end,
    }
    permits:acquire(10)
  end
  print(permits:free())
end
