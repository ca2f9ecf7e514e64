-- Connections: every kind of read, writes, half-closing, addresses, limits, misuse.
local net = require "perilune.net"
local pl = require "perilune"

-- A server in fibers of this domain: calls f(connection) for each client.
local function serve(address, f)
  local l = assert(net.listen(address))
  pl.after(0, function()
    for c in l do pl.after(0, f, c) end
  end)
  return l
end

local function pair()
  local l = assert(net.listen("127.0.0.1:0"))
  local a = assert(net.connect(l:endpoint()))
  local b = assert(l:accept())
  l:close()
  return a, b
end

-- the main program without fibers
do
  local a, b = pair()
  print(a:peer_endpoint() == b:endpoint(), b:peer_endpoint() == a:endpoint())
  print(a:write("one\r\ntwo\n", 3, "\n", 0.5, "\n\nlast"))
  print(a:close_write())
  print(b:read_line(), b:read_line(), b:read_line())
  print(b:peek(2), b:peek(100), b:read_line())
  print(b:read_line(), b:read_line())
  print(b:read_line())
  print(b:read())
  -- the other direction is open still
  b:write("answer")
  print(b:close(), b:close())
  print(a:read_exact(3), a:read_all())
  print(a:close())
  print(a:read()) print(a:write("x")) print(a:flush())
  print(tostring(a):gsub("%d+%.%d+%.%d+%.%d+:%d+", "ADDR"))
end

-- reads
do
  local a, b = pair()
  a:write("abcdefgh") a:flush()
  print(b:read(3), b:read_exact(2), b:read(0), b:read())
  a:write("key: value\r\nrest|more||end")
  print(b:read_until(": "), b:read_until("\r\n"), b:read_until("||"))
  a:close_write()
  print(b:read_until("||"))
  print(b:read_exact(4))
  print(b:read_all())
  a:close() b:close()
end

-- limits leave the bytes where they are
do
  local a, b = pair()
  a:write(("x"):rep(100), "\n") a:flush()
  print(b:read_line(10))
  print(b:read_until("y", 10))
  print(#b:read_line(100))
  a:write(("z"):rep(1000)) a:close_write()
  print(b:read_all(999))
  print(#b:read_all(1000))
end

-- a line that comes byte by byte, and the separator too
do
  local a, b = pair()
  pl.after(0, function()
    for ch in ("slow line\r\nslow--sep"):gmatch "." do a:write(ch) a:flush() pl.sleep(0.0005) end
    a:close()
  end)
  print(b:read_line(), b:read_until("--"), b:read(1), b:read(1), b:read(1))
  print(b:read(1))
end

-- lines
do
  local a, b = pair()
  a:write("l1\nl2\r\n\nl4") a:close()
  local t = {}
  for line in b:lines() do t[#t + 1] = line end
  print(#t, table.concat(t, "|"))
end

-- timeouts: nothing is lost
do
  local a, b = pair()
  print(b:set{read_timeout = 0.02} == b)
  print(b:read())
  a:write("half") a:flush()
  print(b:read_exact(8))
  print(b:peek(4))
  a:write("full") a:flush()
  b:set{read_timeout = false}
  print(b:read_exact(8))
  -- there already: no time is needed
  a:write("now") a:flush() pl.sleep(0.01)
  b:set{read_timeout = 0}
  print(b:read(), (b:read()))
end

-- many bytes, both ways, more than the kernel's buffers hold
do
  local l = serve("127.0.0.1:0", function(c)
    assert(c:copy_to(c))
    c:close()
  end)
  local c = assert(net.connect(l:endpoint()))
  local piece = ("0123456789abcdef"):rep(4096)
  pl.after(0, function()
    for _ = 1, 64 do assert(c:write(piece)) end
    c:close_write()
  end)
  local all = c:read_all()
  print(#all == 64 * #piece, all == piece:rep(64))
  local info = c:info()
  print(info.received == #all, info.sent == #all, info.unread, info.unsent, info.closed)
  c:close() l:close()
end

-- sockets of the file system
do
  local l = serve("unix:s.sock", function(c) c:write(c:read_line(), "!") c:close() end)
  print(l:endpoint(), l)
  local c = assert(net.connect("unix:s.sock"))
  c:write("path\n")
  print(c:read_all(), c:peer())
  local c <close> = assert(net.connect{path = "s.sock"})
  c:write("table\n")
  print(c:read_all())
  print(net.listen("unix:s.sock"))
  l:close()
  print(net.connect("unix:s.sock"))
  print(io.open("s.sock"))
  local l <close> = net.listen("unix:@perilune-test-" .. tostring(pl.now()))
  print((net.connect(l:endpoint())) ~= nil)
end

-- host and port, and both in one text
do
  for _, address in ipairs { "127.0.0.1:0", "[::1]:0" } do
    local l <close> = assert(net.listen(address))
    local host, port = l:address()
    print(host, math.type(port), l:endpoint() == address:gsub("0$", port), l:info().endpoint == l:endpoint())
    local a = assert(net.connect(l:endpoint()))
    local b = assert(net.connect(host, port))
    local c = assert(net.connect(l:address()))
    local ours, number = a:address()
    local theirs, same = l:accept():peer()
    print(ours == theirs, number == same, select(2, b:peer()) == port, c:peer_endpoint() == l:endpoint())
    print(a:endpoint() == a:info().endpoint, a:peer_endpoint() == a:info().peer_endpoint)
  end
  local l <close> = net.listen("unix:t.sock")
  local c <close> = assert(net.connect(l:endpoint()))
  print(l:endpoint(), l:address())
  print(c:peer_endpoint(), c:peer())
  print(select("#", c:address()), c:address())
  for _, bad in ipairs { { "127.0.0.1" }, { "/t.sock" }, { "a b" }, { "127.0.0.1:80", 80 }, { "h", 65536 }, { "h", "x" }, { "h", { timeout = 1 } } } do
    print(select(2, pcall(net.connect, table.unpack(bad))))
  end
  print(select(2, pcall(require "perilune.rpc".connect, "127.0.0.1")))
  print((require "perilune.rpc".connect("127.0.0.1", 1)), pcall(require "perilune.rpc".connect, "127.0.0.1", 1, { tiemout = 1 }))
end

-- a connection that goes out of scope sends what was written
do
  local a, b = pair()
  do
    local a <close> = a
    a:write("bye")
  end
  print(b:read_all())
end

-- IPv6 and any address
do
  local l = net.listen("*:0")
  local _, port = l:address()
  local c = assert(net.connect("127.0.0.1:" .. port))
  local s = l:accept()
  print(s:peer_endpoint() == c:endpoint())
  c = assert(net.connect{host = "localhost", port = tonumber(port), timeout = 10, nodelay = false})
  c:write("by name") c:close()
  s = l:accept()
  print(s:read_all())
  l:close()
  print(l:accept())
  print(l:close())
  -- as address() gives them
  for _, host in ipairs { "127.0.0.1", "localhost", "*" } do
    local first <close> = assert(net.listen(host, 0, { backlog = 5 }))
    local at, port = first:address()
    local c <close> = assert(net.connect((at == "::" or at == "0.0.0.0") and "127.0.0.1" or at, port))
    io.write(host, " ", tostring(first:accept():endpoint() == c:peer_endpoint()), " ")
  end
  print(pcall(net.listen, "127.0.0.1", 65536))
  -- for a while
  local l <close> = net.listen "127.0.0.1:0"
  print(l:accept(0)) print(l:accept(0.02)) print(pcall(l.accept, l, "x"))
  local c <close> = net.connect(l:endpoint())
  print(l:accept(60):peer_endpoint() == c:endpoint(), (l:accept(0)))
  pl.after(0.02, function() net.connect(l:endpoint()):close() end)
  print(l:accept(60):read())
end

-- misuse raises, and says where
do
  local a, b = pair()
  local failed = pl.channel.new()
  pl.after(0, function() b:read() end)
  pl.after(0.01, function()
    failed:send((select(2, pcall(b.read, b))))
  end)
  local message = failed:recv():gsub("%d+%.%d+%.%d+%.%d+:%d+", "ADDR"):gsub("fiber %d+", "fiber N")
  print(message)
  a:close()
  for _, bad in ipairs{
    function() net.connect("nonsense") end, function() net.connect("http://127.0.0.1:1/") end,
    function() net.connect("1.2.3.4:99999") end,
    function() net.connect("::1:80") end,
    function() net.connect{host = "x"} end,
    function() net.connect{host = "x", port = 1, tiemout = 1} end,
    function() net.connect{host = "x", port = "y"} end,
    function() net.listen("127.0.0.1:0", {backlog = 0}) end,
    function() b:read(-1) end,
    function() b:read_exact() end,
    function() b:read_until("") end,
    function() b:write({}) end,
    function() b:set{read_timeout = "x"} end,
    function() b:set{read_timeout = 0 / 0} end,
    function() b:set{timeout = 1} end,
    function() b:set{nodelay = 1} end,
    function() b.read("x") end,
    function() b:copy_to(io.stdout) end,
  } do
    print(select(2, pcall(bad)))
  end
end
