-- What is closed is closed when `close` returns: an address is free, a pipe has no reader, a peer has been told. Also where the system is told of descriptors in ways that keep them open.
local net = require "perilune.net"
local pl = require "perilune"
local process = require "perilune.process"

-- Of this program alone, so that no other one takes a port that is free for a moment.
local host = ("127.%d.%d.%d"):format(math.random(1, 250), math.random(1, 250), math.random(1, 250))

-- The kernel may be looking at a socket for `epoll` when it is closed, and lets go of it a moment later. Only one that is kept open hangs.
local function eventually(f, ...)
  local result
  repeat result = f(...) until result
  return result
end

-- Listeners: each on the port of the one before, beside fibers that wait for it.
local port
pl.scope(function(s)
  for n = 1, 30 do
    local listener = eventually(net.listen, host .. ":" .. (port or 0))
    port = select(2, listener:address())
    local waits = n % 2 == 0 and s:spawn(function() return select(3, listener:accept()) end)
    if n % 3 == 0 then
      local client = assert(net.connect(listener:endpoint()))
      if not waits then listener:accept():close() end
      client:close()
    end
    pl.yield()
    listener:close()
    if waits and n % 3 ~= 0 then assert(waits:await() == "closed") end
  end
end)
print("listeners")

-- Sockets for datagrams.
local address = host .. ":0"
for _ = 1, 30 do
  local udp = eventually(net.udp, address)
  address = udp:endpoint()
  assert(udp:send("x", address))
  assert(udp:recv() == "x")
  udp:close()
end
print("datagrams")

-- LuaSocket's, which have no option to use an address again.
local socket = require "socket.core"
local number, other = 0, 0
for _ = 1, 30 do
  local tcp = assert(socket.tcp4())
  eventually(tcp.bind, tcp, host, number)
  assert(tcp:listen(5))
  number = select(2, tcp:getsockname())
  tcp:close()
  local udp = assert(socket.udp4())
  -- A port that is free for one of them need not be for the other.
  eventually(udp.setsockname, udp, host, other)
  other = select(2, udp:getsockname())
  udp:close()
end
print("LuaSocket")

-- Connections: the peer reads the end while this domain computes, and nobody waits here.
local listener = assert(net.listen("127.0.0.1:0"))
local seen = pl.atomic(0)
local peer = pl.domain.spawn("peer", function(endpoint, seen)
  local net = require "perilune.net"
  for n = 1, 20 do
    local connection = assert(net.connect(endpoint))
    assert(connection:read_all() == "bye")
    seen:add(1)
    connection:close()
  end
end, listener:endpoint(), seen)
for n = 1, 20 do
  local connection = assert(listener:accept())
  connection:write("bye")
  connection:close()
  while seen:load() < n do end
end
peer:join()
print("connections")

-- Pipes: a child reads the end of its input while this domain computes.
for _ = 1, 5 do
  local child = assert(process.spawn { "sh", "-c", "cat > got; mv got done" })
  child.stdin:write("all")
  child.stdin:close_write()
  local file
  repeat file = io.open("done") until file
  assert(file:read("a") == "all")
  file:close()
  os.remove("done")
  child:wait()
end
print("pipes")

-- A FIFO that was read from, with waits: who writes is told that nobody reads any more.
assert(os.execute("mkfifo fifo"))
pl.scope(function(s)
  local writer = s:spawn(function() return assert(io.open("fifo", "w")) end)
  local reader = assert(io.open("fifo", "r"))
  writer = writer:await()
  s:spawn(function() pl.sleep(0.01) writer:write("x\n") writer:flush() end)
  assert(reader:read() == "x")
  reader:close()
  print(select(2, writer:write("y\n"), writer:flush()))
  pcall(writer.close, writer)
end)
