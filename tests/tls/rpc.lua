-- Remote calls and WebSocket over TLS: the pump of remote calls runs wherever bytes are found, and what becomes of a session must never stop it.
local http = require "perilune.http"
local net = require "perilune.net"
local pl = require "perilune"
local rpc = require "perilune.rpc"
local ws = require "perilune.ws"

local identity = { cert = "server.pem", key = "server.key" }
local function port(l) return select(2, l:address()) end
local function to(l, tls) return { host = "localhost", port = port(l), tls = tls or { ca = "ca.pem" } } end

local functions = {
  add = function(a, b) return a + b end,
  size = function(text) return #text end,
  echo = function(...) return ... end,
  big = function(n) return ("b"):rep(n) end,
  slow = function(n)
    pl.sleep(0.001 * (n % 7))
    return n
  end,
  hang = function() pl.sleep(1000) end,
  count = function(n)
    return coroutine.wrap(function()
      for i = 1, n do coroutine.yield(i, ("i"):rep(100)) end
    end)
  end,
}

-- calls: one, many at once, large ones, from several connections, streams
pl.scope(function()
  local l = assert(net.listen("127.0.0.1:0", { tls = identity }))
  rpc.serve(l, functions)
  local connection = assert(net.connect(to(l)))
  local c <close> = assert(rpc.connect(connection))
  print(c:add(2, 3), connection:info().tls.protocol)

  local sum = 0
  pl.scope(function(s)
    for i = 1, 200 do
      s:spawn(function()
        local n = c:slow(i)
        sum = sum + n
      end)
    end
  end)
  print("200 at once", sum)

  local text = ("0123456789abcdef"):rep(65536)
  print("1 MiB there", c:size(text))
  print("and back", c:echo(text) == text)
  local good = 0
  pl.scope(function(s)
    for i = 1, 8 do
      s:spawn(function()
        local mine = string.char(96 + i):rep(1 << 20)
        if c:echo(mine) == mine and #c:big(300000 + i) == 300000 + i then good = good + 1 end
      end)
    end
  end)
  print("8 large ones at once", good)

  -- the address of `rpc.connect` may be a table with `tls`
  local answers = 0
  pl.scope(function(s)
    for i = 1, 10 do
      s:spawn(function()
        local own <close> = assert(rpc.connect(to(l), { timeout = 10 }))
        for n = 1, 20 do
          if own:add(n, i) == n + i then answers = answers + 1 end
        end
      end)
    end
  end)
  print("10 connections", answers)

  local n, bytes = 0, 0
  for i, item in c:stream("count", 20000) do n, bytes = n + i, bytes + #item end
  print("a stream", n, bytes)
  for i in c:stream("count", 1000000) do if i == 10 then break end end
  print("cancelled", pl.timeout(0.02, function() return c:hang() end))
  print("afterwards", c:add(1, 1))
  c:close()
  print("closed", c:try("add", 1, 1))
end)

-- the client goes to other domains
pl.scope(function()
  local l = assert(net.listen("127.0.0.1:0", { tls = identity }))
  rpc.serve(l, functions)
  local c <close> = assert(rpc.connect(to(l)))
  local pool = pl.pool.default()
  local tasks = {}
  for i = 1, 4 do
    tasks[i] = pool:async(function(c)
      local sum = 0
      for n = 1, 100 do sum = sum + c:add(n, 1) end
      return sum
    end, c)
  end
  print("tasks", pl.await_all(tasks))
end)

-- handshakes that fail are errors, soon; the server goes on
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0", { tls = identity }))
  rpc.serve(l, functions)
  local function failed(what, c, message, code)
    print(what, c, code, message and #message > 0)
  end
  failed("another authority", rpc.connect(to(l, { ca = "other_ca.pem" })))
  failed("another name", rpc.connect(to(l, { ca = "ca.pem", name = "a.example" })))

  -- plain calls to a server that wants TLS; TLS to a server of plain calls
  local plain <close> = assert(rpc.connect(l:endpoint(), { timeout = 20 }))
  local ok, message, code = plain:try("add", 1, 1)
  print("no TLS", ok, code == "protocol" or code == "reset" or code == "closed")
  local pl_ = assert(net.listen "127.0.0.1:0")
  rpc.serve(pl_, functions)
  failed("no TLS there", rpc.connect(to(pl_)))

  -- one that says nothing keeps nobody out
  local silent = assert(net.connect(l:endpoint()))
  -- one that goes away in the middle of its handshake
  local half = assert(net.connect(l:endpoint()))
  half:write("\22\3\1\2\0\1\0\1\252\3\3")
  half:flush()
  half:abort()
  local c <close> = assert(rpc.connect(to(l)))
  print("others", c:add(20, 3))
  silent:close()

  -- the side that has accepted asks: its handshake is a part of `rpc.connect`
  local back = assert(net.listen("127.0.0.1:0", { tls = identity }))
  local other = s:spawn(function()
    local peer = assert(net.connect(to(back)))
    peer:write("PLRPC\r\n\1")
    peer:flush()
    local greeting = peer:read_exact(8)
    peer:abort()
    return greeting == "PLRPC\r\n\1"
  end)
  local asks <close> = assert(rpc.connect(back:accept(), { timeout = 20 }))
  print("the other way round", (select(3, asks:try("add", 1, 1))) ~= "timeout", other:await())
  other = s:spawn(function() return (select(3, net.connect(to(back, { ca = "other_ca.pem" })))) end)
  failed("the other way round", rpc.connect(back:accept()))
  print(other:await())
end)

-- Somebody waits for the same connection already when calls begin, and is the one who finds the end of the handshake, or of the session: all who wait are woken, the pump of calls among them.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0", { tls = identity }))
  for _, tls in ipairs { { ca = "ca.pem" }, { ca = "other_ca.pem" } } do
    local client = s:spawn(function()
      local way = assert(net.connect(l:endpoint()))
      pl.sleep(0.02)
      local ok, message, code = way:start_tls { ca = tls.ca, name = "localhost" }
      way:abort()
      return code
    end)
    local accepted = l:accept()
    local reader = s:spawn(function() return accepted:read() end)
    pl.yield()
    local c, message, code = rpc.connect(accepted, { timeout = 20 })
    if c then code = select(3, c:try("add", 1, 1)) end
    print(tls.ca, code ~= "timeout", (reader:await()), client:await())
    accepted:abort()
  end

  local told = pl.channel.new()
  s:daemon(function()
    local accepted = l:accept()
    accepted:write("x")
    accepted:flush()
    told:recv()
    accepted:abort()
  end)
  local connection = assert(net.connect(to(l)))
  connection:read_exact(1)
  local reader = s:spawn(function() return connection:read() end)
  pl.yield()
  local c <close> = assert(rpc.connect(connection, { timeout = 20 }))
  told:send(true)
  print("read by two", (select(3, c:try("add", 1, 1))) ~= "timeout", (reader:await()))
end)

-- peers that die in mid-call: without a word, with one, with bytes that are none of the session; and a program that reads from the connection itself meanwhile
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0", { tls = identity }))
  local ways = {
    abort = function(c) c:abort() end,
    close = function(c) c:close() end,
  }
  for _, way in ipairs { "abort", "close" } do
    local ended, hung = 0, 0
    for round = 1, 20 do
      s:daemon(function()
        local c = l:accept()
        c:write("PLRPC\r\n\1")
        c:flush()
        c:read_exact(8 + 20)
        ways[way](c)
      end)
      local connection = assert(net.connect(to(l)))
      local c <close> = assert(rpc.connect(connection))
      pl.scope(function(s)
        for i = 1, 10 do
          s:spawn(function()
            local ok, message, code = c:try("add", i, i)
            if not ok and code ~= "timeout" then ended = ended + 1 end
          end)
        end
        s:spawn(function()
          -- nothing is read here: somebody reads already, or it is over
          local n = 0
          while n < 200 do
            local ok, bytes = pcall(connection.read, connection)
            if ok and not bytes then break end
            n = n + 1
            pl.yield()
          end
        end)
      end)
      if not c:is_closed() then hung = hung + 1 end
    end
    print(way, ended, hung)
  end

  -- a relay that cuts the stream off, or changes it
  local inner = assert(net.listen("127.0.0.1:0", { tls = identity }))
  rpc.serve(inner, functions)
  for _, what in ipairs { "cut off", "changed" } do
    local outer = assert(net.listen "127.0.0.1:0")
    local armed = false
    s:daemon(function()
      local a = outer:accept()
      local b = assert(net.connect(inner:endpoint()))
      s:daemon(function() for bytes in function() return a:read() end do b:write(bytes) b:flush() end end)
      for bytes in function() return b:read() end do
        if armed then
          if what == "cut off" then
            a:close()
            return
          end
          -- All of it: several answers may come at once, of which each is to be refused.
          bytes = bytes:gsub(".", function(byte) return string.char(byte:byte() ~ 1) end)
        end
        a:write(bytes)
        a:flush()
      end
    end)
    local connection = assert(net.connect(to(outer)))
    local c <close> = assert(rpc.connect(connection))
    print(what, c:add(1, 2))
    armed = true
    local ended = 0
    pl.scope(function(s)
      for i = 1, 10 do
        s:spawn(function()
          local ok, message, code = c:try("slow", i)
          if code == "tls" or code == "reset" or code == "closed" then ended = ended + 1 else print(ok, message, code) end
        end)
      end
      s:spawn(function()
        for _ = 1, 200 do
          local ok, bytes = pcall(connection.read, connection)
          if ok and not bytes then break end
          pl.yield()
        end
      end)
    end)
    print(what, ended)
  end

  -- the server sees its client die in mid-call: what runs for it is cancelled
  local over = pl.channel.new()
  local dying = assert(net.listen("127.0.0.1:0", { tls = identity }))
  rpc.serve(dying, {
    hang = function()
      local told <close> = setmetatable({}, { __close = function() over:send "cancelled over there" end })
      pl.sleep(1000)
    end,
  })
  local connection = assert(net.connect(to(dying)))
  local c <close> = assert(rpc.connect(connection))
  s:spawn(function() print("the caller", (select(3, c:try("hang")))) end)
  pl.sleep(0.05)
  connection:abort()
  print(over:recv())
end)

-- WebSocket
pl.scope(function(s)
  local srv = http.server()
  srv:ws("/echo", function(c)
    for message, kind in c do
      if message == "die" then return end
      assert(c:send(kind == "binary" and { binary = message } or message))
    end
  end, { limit = 4 << 20 })
  local l = assert(srv:listen("127.0.0.1:0", { tls = identity }))
  local url = ("wss://localhost:%d/echo"):format(port(l))
  local options = { tls = { ca = "ca.pem" }, limit = 4 << 20, timeout = 20 }
  local c <close> = assert(ws.connect(url, options))
  c:send "hello"
  print(c:recv())
  local large = ("w"):rep(1 << 20)
  local back
  pl.scope(function(s)
    s:spawn(function() for i = 1, 3 do c:send { binary = large } end end)
    back = 0
    for i = 1, 3 do if c:recv() == large then back = back + 1 end end
  end)
  print("1 MiB", back)
  local echoed = 0
  pl.scope(function(s)
    s:spawn(function() for i = 1, 200 do c:send("n" .. i) end end)
    for i = 1, 200 do if c:recv() == "n" .. i then echoed = echoed + 1 end end
  end)
  print("200", echoed)
  c:ping()
  c:send "die"
  print(c:recv())
  print("another authority", (select(3, ws.connect(url, { tls = { ca = "other_ca.pem" } }))))
  print("no TLS", (ws.connect("ws://localhost:" .. port(l) .. "/echo", { timeout = 20 })))
end)
print "the end"
