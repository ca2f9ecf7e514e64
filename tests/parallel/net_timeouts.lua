-- pl.timeout around what waits: a read that has its bytes keeps them, whatever the code around it calls then; or they stay in the connection. Every line is
-- counted.
local pl = require "perilune"
local net = require "perilune.net"
local l = net.listen("127.0.0.1:0")
local a = net.connect(l:endpoint())
local b = l:accept()
b:set { read_timeout = 5 }

local function use(...) return ... end
-- Keeps the domain, so that whatever becomes ready meanwhile runs after it.
local function keep_busy(seconds)
  local until_then = pl.now() + seconds
  while pl.now() < until_then do end
end

local read = {
  plain = function() return b:read_line() end,
  ["and a call"] = function() local line = b:read_line() use(line) return line end,
  ["and a table"] = function()
    local lines = {}
    table.insert(lines, string.upper((b:read_line())))
    return table.concat(lines):lower()
  end,
  ["in a pcall"] = function() local _, line = pcall(b.read_line, b) use(line) return line end,
  ["in a timeout"] = function() return use(pl.timeout(100, function() return use((b:read_line())) end)) end,
  ["in a scope"] = function() return use(pl.scope(function() return use((b:read_line())) end)) end,
  ["in a shield"] = function() return use(pl.shield(function() return use((b:read_line())) end)) end,
  ["in a fiber"] = function() return use(pl.fiber(function() return use((b:read_line())) end):await()) end,
  ["in a coroutine"] = function() return use(coroutine.wrap(function() return use((b:read_line())) end)()) end,
}
local ways = {}
for way in pairs(read) do ways[#ways + 1] = way end
table.sort(ways)

-- The bytes come, then the time is over, then the fiber runs: either way the line is there once.
for _, way in ipairs(ways) do
  local lost = 0
  for n = 1, 10 do
    local got
    pl.scope(function(s)
      s:spawn(function() got = pl.timeout(0.005, read[way]) end)
      for _ = 1, 5 do pl.yield() end -- it reads by now
      a:write(way, n, "\n") a:flush()
      keep_busy(0.008)
    end)
    got = got or b:read_line()
    if got ~= way .. n then lost = lost + 1 end
  end
  print(way, lost)
end

-- The time is over while the code that has the line computes in a native function.
local lost = 0
for n = 1, 5 do
  a:write(n, "\n") a:flush()
  local got = pl.timeout(0.001, function()
    local line = b:read_line()
    local long = string.rep("x", 20000000)
    return use(line), #long
  end)
  got = got or b:read_line()
  if got ~= tostring(n) then lost = lost + 1 end
end
print("computing", lost)

-- A loop over lines that are there already is cancelled, and no line is lost.
for n = 1, 100000 do a:write(n, "\n") end
a:flush()
a:write("end\n") a:flush()
local lines = {}
repeat
  pl.timeout(0.005, function()
    repeat lines[#lines + 1] = use((b:read_line())) until lines[#lines] == "end"
  end)
until lines[#lines] == "end"
for n = 1, 100000 do assert(lines[n] == tostring(n)) end
print("a loop", #lines - 1)

-- So is code that computes, whatever it has read before.
a:write "line\n" a:flush()
local n, line = 0, nil
print(pl.timeout(0.01, function()
  line = b:read_line()
  while true do n = n + 1 end
end))
-- A slow machine did not even come to read it.
line = line or b:read_line()

-- Who cancels his own scope goes no further.
a:write "line\n" a:flush()
print(pl.scope(function(s)
  b:read_line()
  s:cancel "enough"
  use()
  print "not reached"
end))
pl.scope(function(s)
  local f
  f = s:spawn(function() b:read_line() f:cancel() use() print "not reached" end)
  a:write "line\n" a:flush()
end)

-- A peer that sends a bit now and then, and a time that is nearly always over: every number comes once, in order.
local peer = pl.domain.spawn(function(c)
  local pl = require "perilune"
  for i = 1, 2000 do
    local text = ("%06d"):format(i)
    c:write(text:sub(1, 3)) c:flush()
    if i % 7 == 0 then pl.sleep(0.0001) end
    c:write(text:sub(4)) c:flush()
    if i % 3 == 0 then pl.sleep(0.00005) end
  end
end, a)
local next_one, wrong
local function count(last, f)
  next_one, wrong = 1, 0
  while next_one <= last do
    local got = pl.timeout(0.0001, f)
    if got then
      got = math.tointeger(got)
      if got ~= next_one then wrong = wrong + 1 end
      next_one = got + 1
    end
  end
  return wrong
end
print("slow peer", count(2000, function() return use((b:read_exact(6))) end))
peer:join()

-- Messages and permits are no different.
local c = pl.channel.new(0)
local sender = pl.domain.spawn(function(c)
  local pl = require "perilune"
  for i = 1, 2000 do
    c:send(i)
    if i % 3 == 0 then pl.sleep(0.00005) end
  end
end, c)
print("channel", count(2000, function() return use((c:recv())) end))
sender:join()
local s = pl.semaphore(1)
local held = 0
for _ = 1, 100 do
  pl.scope(function(scope)
    s:acquire()
    scope:spawn(function()
      if pl.timeout(0.0005, function() s:acquire() return use(true) end) then s:release() end
    end)
    for _ = 1, 5 do pl.yield() end
    s:release()
    keep_busy(0.001)
  end)
  if s:acquire(1) then s:release() else held = held + 1 end
end
print("semaphore", held)

-- A pipe's line stays in the pipe, or the reader has it.
local f = io.popen "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo $i; [ $((i%20)) = 0 ] && sleep 0.001; done"
print("pipe", count(400, function() return use((f:read "n")) end), f:close())

-- What waits by itself takes its time as `{timeout = seconds}`, too, and no other option.
do
  local fs, process = require "perilune.fs", require "perilune.process"
  local listener <close> = net.listen "127.0.0.1:0"
  local udp <close> = net.udp "127.0.0.1:0"
  local child <close> = process.spawn { "cat" }
  local folder = os.tmpname()
  os.remove(folder)
  assert(fs.mkdir(folder))
  local watch <close> = assert(fs.watch(folder))
  local client <close> = net.connect(listener:endpoint())
  local accepted <close> = listener:accept { timeout = 60 }
  local limit = { timeout = 0.01 }
  print("accept", listener:accept(limit))
  print("udp", udp:recv(limit))
  print("udp", udp:recv(0.01))
  print("wait", child:wait(limit))
  print("watch", watch:recv(limit))
  print("start_tls", client:start_tls { insecure = true, name = "x", timeout = 0.01 })
  for _, try in ipairs { { listener, "accept" }, { udp, "recv" }, { child, "wait" }, { watch, "recv" } } do
    print(try[2], pcall(try[1][try[2]], try[1], { timout = 1 }))
  end
  print(select(2, pcall(net.connect, { host = "127.0.0.1", port = 1, tls = { insecure = true, server = true } })))
  assert(fs.remove(folder))
end
