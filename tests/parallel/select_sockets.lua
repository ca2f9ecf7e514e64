-- pl.select over what is outside the program: connections in both directions, listeners, sockets for datagrams, processes, watched files.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local fs = require "perilune.fs"
local process = require "perilune.process"

local function pair()
  local l <close> = assert(net.listen("127.0.0.1:0"))
  local a = assert(net.connect(l:endpoint()))
  return a, assert(l:accept())
end

print "-- a connection: ready, and nothing is taken"
do
  local a, b = pair()
  print(pl.select { b, timeout = 0 })
  print(pl.select { b, timeout = 0.01 })
  pl.after(0.01, function() a:write("half") a:flush() end)
  print(pl.select { b, timeout = 10 })
  print(pl.select { b }, b:info().unread)
  print(b:read())
  print(pl.select { b, timeout = 0 })
  a:write("a line\n") a:flush()
  print(pl.select { b }, b:read_line())
  a:close()
  print(pl.select { b }, b:read())
  b:close()
  print(pl.select { b }, b:read())
end

print "-- the first that is ready, among all kinds"
do
  local a, b = pair()
  local l <close> = net.listen("127.0.0.1:0")
  local u <close> = net.udp("127.0.0.1:0")
  local news = pl.channel.new()
  local p = assert(process.spawn { "cat", stdin = "pipe" })
  local function wait() return pl.select { news, b, l, u, p, timeout = 10 } end
  pl.after(0.005, function() u:send("datagram", u:endpoint()) end)
  local case, bytes, from = wait()
  print(case, bytes, from == u:endpoint())
  local c
  pl.after(0.005, function() c = net.connect(l:endpoint()) end)
  local case, accepted = wait()
  print(case, accepted:write("x"))
  accepted:close()
  pl.after(0.005, function() p.stdin:close() end)
  local case, status = wait()
  print(case, status.code)
  print((pl.select { p }), (pl.select { news, p, timeout = 0 }))
  pl.after(0.005, function() news:send("a message") end)
  print(pl.select { news, b, l, u, timeout = 10 })
  pl.after(0.005, function() a:write "bytes" a:flush() end)
  print(pl.select { news, b, l, u, timeout = 10 })
  -- the order decides
  news:send "first"
  print(pl.select { news, b })
  print(pl.select { b, news }, b:read())
  l:close()
  print(pl.select { news, l, timeout = 10 })
  u:close()
  print(pl.select { u })
end

print "-- until something can be written"
do
  local a, b = pair()
  a:set { high_water = 1000 }
  print(pl.select { { a, "write" } })
  local written = 0
  -- The system's own buffers grow for a while. One time that is over says little: the machine may have stood still.
  local in_vain = 0
  while in_vain < 20 do
    in_vain = in_vain + 1
    while pl.select { { a, "write" }, timeout = 0.01 } do
      a:write(("x"):rep(10000))
      written = written + 10000
      in_vain = 0
    end
  end
  print(written > 10000, pl.select { { a, "write" }, timeout = 0.01 })
  local read = 0
  pl.scope(function(s)
    s:spawn(function() while read < written do read = read + #b:read() end end)
    print(pl.select { { a, "write" }, timeout = 10 })
    a:close_write()
  end)
  print(read == written)
end

print "-- one reader at a time; a case that is over is none"
do
  local a, b = pair()
  pl.scope(function(s)
    local reading = s:spawn(function() return b:read_line() end)
    pl.sleep(0.005)
    print((select(2, pcall(pl.select, { b })):gsub("%d+%.%d+%.%d+%.%d+:%d+", "ADDR"):gsub(": .*", "")))
    a:write("for the reader\n") a:flush()
    print(reading:await())
    local selecting = s:spawn(function() return pl.select { b, pl.channel.new() } end)
    pl.sleep(0.005)
    print((select(2, pcall(b.read, b)):match "is being read already"))
    selecting:cancel()
    pl.sleep(0.005)
    a:write("after\n") a:flush()
    print(b:read_line())
  end)
end

print "-- selects without end leave nothing behind on a connection that is silent"
do
  local a, b = pair()
  local news = pl.channel.new()
  collectgarbage()
  local function resident() return tonumber(fs.read("/proc/self/status"):match "VmRSS:%s*(%d+)") end
  local before = resident()
  pl.scope(function(s)
    s:daemon(function() for n = 1, 50000 do news:send(n) if n % 10 == 0 then pl.yield() end end end)
    local sum = 0
    for _ = 1, 50000 do
      local _, n = pl.select { b, news }
      sum = sum + n
    end
    print(sum)
  end)
  collectgarbage()
  print(resident() - before < 8 << 10)
end

print "-- a listener that several select from: no client is forgotten"
do
  local l = net.listen("127.0.0.1:0")
  local served, done = pl.atomic(0), {}
  for n = 1, 3 do
    done[n] = pl.domain.spawn(function(l, served)
      local stop = pl.after(20)
      while true do
        -- a case that is ready by turns, so that a wake for the listener may find another one
        local case, c = pl.select { pl.after(math.random() * 0.001), l, stop }
        if case == 3 or case == 2 and not c then return end
        if case == 2 then
          c:write("x") c:close()
          served:add(1)
        end
      end
    end, l, served)
  end
  for _ = 1, 200 do
    local c <close> = assert(net.connect(l:endpoint()))
    c:set { read_timeout = 10 }
    if c:read_all() ~= "x" then print "forgotten" end
  end
  l:close()
  for n = 1, 3 do done[n]:join() end
  print(served:load())
end

print "-- many connections, one fiber: every line once"
do
  local cases, clients = {}, {}
  for n = 1, 50 do clients[n], cases[n] = pair() end
  local got = {}
  pl.scope(function(s)
    for n, c in ipairs(clients) do
      s:spawn(function()
        for i = 1, 20 do
          c:write(n, " ", i, "\n") c:flush()
          if i % 7 == 0 then pl.sleep(0.001) end
        end
        c:close()
      end)
    end
    while #cases > 0 do
      local n = pl.select(cases)
      local line = cases[n]:read_line()
      if line then got[line] = (got[line] or 0) + 1 else cases[n]:close() table.remove(cases, n) end
    end
  end)
  local lines = 0
  for _, times in pairs(got) do lines = lines + times end
  print(lines)
end

print "-- misuse"
do
  local a, b = pair()
  local l <close> = net.listen("127.0.0.1:0")
  print(pcall(pl.select, { { b, "read" } }))
  print(pcall(pl.select, { { l, "write" } }))
  print(pcall(pl.select, { io.stdout }))
end

print "-- nothing but a connection: no deadlock"
do
  local a, b = pair()
  pl.after(0.05, function() a:close() end)
  print(pl.select { b })
  print(pl.timeout(0.01, pl.select, { a, pl.channel.new() }))
end
