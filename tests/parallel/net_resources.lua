-- What runs out, what is inherited, who disturbs whom: resets before anybody accepts, half-open streams, children and descriptors, a thousand names, computing neighbours, floods beside timers.
-- stress: no
local net = require "perilune.net"
local fs = require "perilune.fs"
local process = require "perilune.process"
local pl = require "perilune"

local function pair()
  local l <close> = assert(net.listen("127.0.0.1:0"))
  local a = assert(net.connect(l:endpoint()))
  return a, assert(l:accept())
end

local function descriptors()
  local n = 0
  for _ in pairs(assert(fs.dir "/proc/self/fd")) do n = n + 1 end
  return n
end

print "-- reset before it is accepted: the next one is served"
do
  local l <close> = net.listen("127.0.0.1:0")
  for _ = 1, 20 do net.connect(l:endpoint()):abort() end
  local c = net.connect(l:endpoint())
  c:write("alive\n")
  c:flush()
  local line
  pl.timeout(10, function()
    repeat
      local s = l:accept()
      line = s:read_line()
      s:close()
    until line
  end)
  print(line)
  c:close()
end

print "-- reset while a line is half there: what had come is no line"
do
  local a, b = pair()
  a:write("half") a:flush()
  pl.after(0.01, function() a:abort() end)
  print(b:read_line())
end

print "-- half-closed, each way"
do
  local a, b = pair()
  a:write("question") a:close_write()
  print(b:read_all(), b:read())
  for n = 1, 3 do b:write("answer ", n, "\n") b:flush() end
  print(a:read_line(), a:read_line(), a:read_line())
  print(a:write("more"))
  b:close_write()
  print(a:read())
  a:close() b:close()
  -- the end and bytes at once
  local a, b = pair()
  a:write("last") a:close()
  print(b:read_all())
end

print "-- half-open: a peer that is silent costs its own reader only, and that one's time"
do
  local a, b = pair()
  b:set { read_timeout = 0.02 }
  print(b:read())
  a:close()
end

print "-- ready and over at once: what is there is handed out"
do
  local a, b = pair()
  local got, written = 0, 0
  for _ = 1, 100 do
    b:set { read_timeout = 0.001 }
    pl.after(0.001, function() a:write("x") a:flush() written = written + 1 end)
    local s = b:read()
    if s then got = got + #s end
  end
  b:set { read_timeout = 10 }
  while written < 100 do pl.sleep(0.001) end
  a:close()
  print(got + #(b:read_all() or "") == 100)
end

print "-- a dead child: writing to it is a failure, no signal"
do
  local p = assert(process.spawn { "true", stdin = "pipe" })
  p:wait()
  local ok, message, code
  for _ = 1, 100 do
    ok, message, code = p.stdin:write(("x"):rep(10000))
    if ok then ok, message, code = p.stdin:flush() end
    if not ok then break end
  end
  print(code)
end

print "-- children inherit nothing but what they are given, whatever is opened meanwhile; no zombies"
do
  -- 'ls' has one for the folder that it lists, and what the test itself was started with.
  local function given()
    local _, n = assert(process.run { "ls", "/proc/self/fd" }).stdout:gsub("\n", "")
    return n
  end
  local least = given()
  local before = descriptors()
  local stop, worst, runs = false, 0, 0
  pl.scope(function(s)
    s:spawn(function()
      while not stop do
        local l = net.listen("127.0.0.1:0")
        local c = net.connect(l:endpoint())
        c:close() l:close()
        pl.yield()
      end
    end)
    pl.scope(function(s)
      for _ = 1, 4 do
        s:spawn(function()
          for _ = 1, 10 do
            worst, runs = math.max(worst, given()), runs + 1
          end
        end)
      end
    end)
    stop = true
  end)
  print(runs, worst == least or worst)
  local f = io.open "/proc/self/stat"
  local me = f:read "n"
  f:close()
  local zombies = 0
  for _, pid in ipairs(fs.dir "/proc") do
    if pid:find "^%d+$" then
      local text = fs.read("/proc/" .. pid .. "/stat")
      if text and text:find("%) Z " .. me .. " ") then zombies = zombies + 1 end
    end
  end
  print("zombies", zombies)
  collectgarbage()
  local ends = pl.now() + 100
  while descriptors() > before and pl.now() < ends do collectgarbage() pl.sleep(0.01) end
  print("descriptors left", descriptors() - before <= 0 or descriptors() - before)
end

print "-- a thousand names at once, cancelled ones among them; files are read meanwhile"
do
  fs.write("beside.txt", "beside")
  local known, cancelled, read = 0, 0, 0
  pl.scope(function(s)
    local asked = {}
    for n = 1, 1000 do
      asked[n] = s:spawn(function()
        if n % 10 == 0 then
          if not pl.timeout(0, net.resolve, "localhost") then cancelled = cancelled + 1 else known = known + 1 end
        elseif net.resolve("localhost") then known = known + 1 end
      end)
    end
    for _ = 1, 50 do
      s:spawn(function() if fs.read("beside.txt") == "beside" then read = read + 1 end end)
    end
  end)
  print(known + cancelled, read)
  print(select(3, net.resolve("no.such.name.invalid")))
end

print "-- a domain that computes, beside a hundred connections of another one"
do
  local l = net.listen("127.0.0.1:0")
  local busy = pl.domain.spawn(function()
    local pl = require "perilune"
    local ends, n = pl.now() + 1, 0
    while pl.now() < ends do for _ = 1, 1000 do n = n + 1 end end
    return n > 0
  end)
  local served = 0
  pl.scope(function(s)
    s:daemon(function()
      for c in l do
        s:daemon(function()
          for line in c:lines() do c:write(line, "\n") end
          c:close()
        end)
      end
    end)
    local clients = {}
    for n = 1, 100 do clients[n] = net.connect(l:endpoint()) end
    for round = 1, 5 do
      for n, c in ipairs(clients) do c:write(n * round, "\n") end
      for n, c in ipairs(clients) do if c:read_line() == tostring(n * round) then served = served + 1 end end
    end
    for _, c in ipairs(clients) do c:close() end
  end)
  l:close()
  print(served, busy:join())
end

print "-- a flood beside timers of a millisecond: they go on, and are not hundreds of times late"
do
  local a, b = pair()
  local ticks, worst, stop = 0, 0, false
  pl.scope(function(s)
    s:spawn(function() while not stop do if not a:write(("x"):rep(4096)) then break end end a:close() end)
    s:spawn(function() while b:read() do end end)
    s:spawn(function()
      for _ = 1, 100 do
        -- processor time: what others take on a busy machine is nobody's fault here
        local before = os.clock()
        pl.sleep(0.001)
        worst, ticks = math.max(worst, os.clock() - before), ticks + 1
      end
      stop = true
    end)
  end)
  print(ticks, worst < 0.5 or worst)
end

print "-- 64 MiB through a window of 64 KiB: nothing lost, and little memory"
do
  local a, b = pair()
  a:set { high_water = 65536 }
  local piece = ("0123456789abcdef"):rep(4096)
  local got, most = 0, 0
  pl.scope(function(s)
    s:spawn(function()
      for _ = 1, 1024 do a:write(piece) most = math.max(most, a:info().unsent) end
      a:close()
    end)
    while true do
      local text = b:read(1 << 20)
      if not text then break end
      got = got + #text
    end
  end)
  print(got == 64 << 20, most <= 3 * 65536 or most)
end

print "-- no ports, no routes, no such file: failures with their names"
print((select(3, net.connect { host = "127.0.0.1", port = 1, timeout = 5 })))
print((select(3, net.listen "192.0.2.1:0")))
print((select(3, net.connect("unix:" .. ("x"):rep(200)))))
