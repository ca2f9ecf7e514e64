-- WebSocket: messages both ways, handshakes that are refused, frames that are not allowed, the end in every manner.
-- stress: no
local http, net, pl, ws = require "perilune.http", require "perilune.net", require "perilune", require "perilune.ws"

local ended = pl.channel.new()
local srv = http.server()
srv:ws("/echo", function(c)
  local message, kind, code = c:recv()
  while message do
    c:send(kind == "text" and message or { binary = message })
    message, kind, code = c:recv()
  end
  ended:send("echo ended: " .. code)
end)
srv:ws("/limit", function(c) ended:send(select(3, c:recv())) end, { limit = 100 })
srv:ws("/bye", function(c, req)
  c:send("hello " .. req.path)
  c:close(4000, "that was all")
end)
srv:ws("/fail", function() error "broken" end)
srv:ws("/leave", function(c) c:send "leaving" end)
srv:ws("/protocols", function(c, _, protocol) c:send(tostring(protocol)) end, { protocols = { "b", "c" }, origins = { "http://here" } })
srv:ws("/told", function(c) ended:send(table.concat({ tostring(select(4, c:recv())) }, " ")) end)
srv:get("/plain", function() return "plain" end)

pl.scope(function(s)
  local l = assert(srv:listen "127.0.0.1:0")
  local base = "ws://" .. l:endpoint()

  -- messages of every size, both kinds
  local c, protocol = assert(ws.connect(base .. "/echo"))
  print(protocol, c:send "hello", c:recv())
  for _, n in ipairs { 0, 1, 125, 126, 127, 65535, 65536, 70000, 1 << 20 } do
    local text = ("a"):rep(n)
    c:send(text)
    local back, kind = c:recv()
    local bytes = ("\xff\0\1"):rep(n // 3)
    c:send { binary = bytes }
    local back2, kind2 = c:recv()
    print(n, back == text, kind, back2 == bytes, kind2)
  end
  c:send "h\u{e9}llo \u{1f600}"
  print(c:recv())
  print(c:ping("are you there"), c:send "after a ping", c:recv())
  -- many messages at once, from several fibers
  pl.each({ 1, 2, 3, 4 }, function(k) for i = 1, 50 do c:send(k .. " " .. i) end end)
  local sum = 0
  for _ = 1, 200 do sum = sum + tonumber((c:recv():match " (%d+)")) end
  print(sum)
  print(c:is_closed(), c:close(), c:close(), c:is_closed(), c:send "late")
  print(c:recv())
  print(ended:recv())

  -- the end
  c = assert(ws.connect(base .. "/bye"))
  print(c:recv())
  print(c:recv())
  print(c:recv())
  c = assert(ws.connect(base .. "/leave"))
  for message in c do print(message) end
  print(select(4, c:recv()))
  c = assert(ws.connect(base .. "/echo"))
  c:send(("x"):rep((1 << 20) + 1))
  print(c:recv())
  print(ended:recv())
  c = assert(ws.connect(base .. "/limit"))
  c:send(("x"):rep(101))
  print(c:recv())
  print(ended:recv())
  do
    local gone <close> = assert(ws.connect(base .. "/told"))
  end
  print(ended:recv())
  print(pcall(function()
    local gone <close> = assert(ws.connect(base .. "/told"))
    error("an error", 0)
  end))
  print(ended:recv())

  -- handshakes
  local function masked(_, message, code) print((message:gsub("127%.0%.0%.1:%d+", "ADDRESS")), code) end
  masked(ws.connect(base .. "/plain"))
  print(select(3, ws.connect(base .. "/nowhere")))
  print(select(2, ws.connect(base .. "/protocols", { protocols = { "a", "c", "b" } })))
  print(select(2, ws.connect(base .. "/protocols")))
  print(select(3, ws.connect(base .. "/protocols", { headers = { origin = "http://elsewhere" } })))
  print(ws.connect(base .. "/protocols", { headers = { origin = "http://here" } }) ~= nil)
  local function status(headers, path)
    local raw <close> = assert(net.connect(l:endpoint()))
    raw:set { read_timeout = 5 }
    raw:write("GET ", path or "/echo", " HTTP/1.1\r\nHost: x\r\n", headers, "\r\n")
    return raw:read_line():match "%d%d%d"
  end
  local key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
  local up = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
  print(status "", status(up), status(up .. key), status(up .. key .. "Sec-WebSocket-Version: 8\r\n"))
  print(status(up .. "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n"), status("Upgrade: h2c\r\nConnection: Upgrade\r\n"))
  print(status("Connection: keep-alive, Upgrade\r\nupgrade: WebSocket\r\n" .. key .. "Sec-WebSocket-Version: 13\r\n"))

  -- raw frames to a server
  local function raw()
    local r = assert(net.connect(l:endpoint()))
    r:set { read_timeout = 5 }
    r:write("GET /echo HTTP/1.1\r\nHost: x\r\n", up, key, "Sec-WebSocket-Version: 13\r\n\r\n")
    local accept
    for line in r:lines() do
      accept = line:match "^[Ss]ec%-[Ww]eb[Ss]ocket%-[Aa]ccept: (.*)" or accept
      if line == "" then break end
    end
    return r, accept
  end
  local function visible(bytes) return (bytes:gsub("[^%g ]", function(b) return ("<%x>"):format(b:byte()) end)) end
  local function try(bytes)
    local r <close> = raw()
    r:write(bytes)
    local got, message = r:read_all()
    ended:recv(0.2)
    return got and visible(got) or message
  end
  print(select(2, raw()))
  local M = "\0\0\0\0"
  for _, case in ipairs {
    { "not masked", "\x81\x01a" },
    { "reserved bits", "\xc1\x81" .. M .. "a" },
    { "an unknown kind", "\x83\x80" .. M },
    { "an unknown control frame", "\x8f\x80" .. M },
    { "a ping in pieces", "\x09\x80" .. M },
    { "a long ping", "\x89\xfe\0\x7e" .. M .. ("x"):rep(126) },
    { "the rest of nothing", "\x80\x81" .. M .. "a" },
    { "a message within another", "\x01\x81" .. M .. "a\x81\x81" .. M .. "b" },
    { "a length that is too long", "\x81\xfe\0\5" .. M .. "abcde" },
    { "a length of 64 bits", "\x82\xff\x80\0\0\0\0\0\0\0" .. M },
    { "more than the limit", "\x82\xff\0\0\0\1\0\0\0\0" .. M },
    { "a text that is not UTF-8", "\x81\x82" .. M .. "\xc3\x28" },
    { "half a character", "\x81\x81" .. M .. "\xc3" },
    { "a close of one byte", "\x88\x81" .. M .. "\3" },
    { "a close with a bad code", "\x88\x82" .. M .. "\3\xee" },
    { "a close with a bad text", "\x88\x83" .. M .. "\3\xe8\xff" },
    { "a close", "\x88\x82" .. M .. "\3\xe8" },
    { "a close that says nothing", "\x88\x80" .. M },
    { "pieces and a ping", "\x01\x81" .. M .. "a\x89\x82" .. M .. "hi\x00\x80" .. M .. "\x80\x81" .. M .. "b\x88\x80" .. M },
    { "a mask", "\x81\x85\1\2\3\4" .. "\x69\x67\x6f\x68\x6e\x88\x80" .. M },
  } do
    print(case[1], try(case[2]))
  end

  -- a frame in pieces of a byte; a peer that vanishes
  local r <close> = raw()
  for b in ("\x81\x85" .. M .. "bytes"):gmatch "." do
    r:write(b)
    r:flush()
  end
  print(visible(r:read_exact(7)))
  r:abort()
  print(ended:recv())

  -- what a client does not take
  local fake = assert(net.listen "127.0.0.1:0")
  local function answer(head, bytes)
    s:daemon(function()
      local a <close> = fake:accept()
      local key
      for line in a:lines() do
        key = line:lower():match "^sec%-websocket%-key:" and line:match ": (.*)$" or key
        if line == "" then break end
      end
      a:write((head:gsub("%$", "")), "\r\n", bytes or "")
      a:flush()
      a:set { read_timeout = 0.2 }
      a:read_all()
    end)
    local c, message, code = ws.connect("ws://" .. fake:endpoint() .. "/", { timeout = 5 })
    return c and c:recv(), message, code
  end
  masked(answer "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n")
  print(answer "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: wrong\r\n")
  print(answer "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n")

  -- times
  c = assert(ws.connect(base .. "/echo", { read_timeout = 0.02 }))
  print(c:recv())
  print(c:send "still there", c:recv())
  c:close()
  c = assert(ws.connect(base .. "/echo"))
  print(pl.timeout(0.02, function() c:recv() return "never" end))
  print(c:send "still there", c:recv())
  c:close()

  -- misuse
  c = assert(ws.connect(base .. "/echo"))
  print(pcall(c.send, c, "\xff"))
  print(pcall(c.send, c, { text = "x" }))
  print(pcall(c.send, c, {}))
  print(pcall(c.close, c, 1005))
  print(pcall(c.close, c, 1000, ("x"):rep(124)))
  print(pcall(c.ping, c, ("x"):rep(126)))
  print(pcall(ws.connect, "http://x/"))
  print(pcall(ws.connect, "ws://x/", { tiemout = 1 }))
  print(pcall(ws.handler, nil))
  print(pcall(srv.ws, srv, "/x"))
  c:close()
end)
print "done"
