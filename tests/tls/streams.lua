-- What programs do with connections is the same with TLS: reading in every manner, writing, both ends of both directions, several fibers and domains.
local net = require "perilune.net"
local pl = require "perilune"

local listener = assert(net.listen("127.0.0.1:0", {tls = {cert = "server.pem", key = "server.key", alpn = {"two", "one"}}}))
local _, port = listener:address()

-- A client, and the server's end of it.
local function pair(options)
  local tls = {ca = "ca.pem"}
  for key, value in pairs(options or {}) do tls[key] = value end
  local server
  local accepted = pl.channel.new()
  pl.after(0, function() local c = listener:accept() c:peek(1) accepted:send(c) end)
  local client = assert(net.connect{host = "127.0.0.1", port = port, tls = tls})
  client:write("!")
  client:flush()
  server = accepted:recv()
  assert(server:read_exact(1) == "!")
  return client, server
end

do
  local c, s = pair{alpn = {"one", "two"}}
  local info, other = c:info().tls, s:info().tls
  print(info.protocol, info.cipher, info.alpn, info.name, info.resumed, info.handshaking, info.peer_name)
  print(table.concat(info.peer_names, " "), #info.peer_certificate > 200)
  print(other.protocol, other.cipher, other.alpn, other.name, other.resumed, other.handshaking, other.peer_name)

  c:write("a line\r\n", 12, "\nwhat comes|before", ("x"):rep(100))
  c:flush()
  print(s:read_line(), s:read_line(), s:read_until("|"), s:peek(3), s:read_exact(6), #s:read_exact(100))

  -- half-closed: the other direction goes on
  s:write("the last words")
  print(s:close_write())
  print(c:read_all())
  print(c:read())
  c:write("still here")
  print(c:close())
  print(s:read_all(), s:read())
  print(s:close(), s:is_closed(), s:read())
end

-- much in both directions at once; the bytes that go are counted as the program's
do
  local c, s = pair()
  local block = {}
  for i = 1, 2000 do block[i] = ("%d;"):format(i * 7919) end
  block = table.concat(block)
  local rounds = 300
  local function send(c)
    for _ = 1, rounds do assert(c:write(block)) end
    assert(c:close_write())
  end
  local function check(c)
    for _ = 1, rounds do
      if c:read_exact(#block) ~= block then return "wrong" end
    end
    return c:read_all() == "" and "right"
  end
  pl.scope(function(scope)
    scope:spawn(send, c)
    scope:spawn(send, s)
    local one, other = scope:spawn(check, c), scope:spawn(check, s)
    print(one:await(), other:await())
  end)
  print(c:info().received == rounds * #block, s:info().received == rounds * #block + 1, c:info().sent == rounds * #block + 1)
  c:close() s:close()
end

-- one large string; small ones; a writer that has to wait
do
  local c, s = pair()
  local text = ("0123456789"):rep(300000)
  pl.after(0, function()
    c:write(text)
    for i = 1, 1000 do c:write(i, "\n") end
    c:close()
  end)
  print(s:read_exact(#text) == text)
  local sum = 0
  for line in s:lines() do sum = sum + tonumber(line) end
  print(sum)
  s:close()
end

-- to-be-closed: everything arrives
do
  local c, s = pair()
  do
    local c <close> = c
    c:write(("y"):rep(2000000))
  end
  print(#s:read_all(), s:read())
  s:close()
end

-- through another connection
do
  local c, s = pair()
  local c2, s2 = pair()
  pl.after(0, function() c:write(("z"):rep(500000)) c:close() end)
  pl.after(0, function() print(s:copy_to(c2)) c2:close() end)
  print(#s2:read_all())
  s:close() s2:close()
end

-- in other domains
do
  local c, s = pair()
  local echo = pl.domain.spawn(function(s)
    for line in s:lines() do s:write(line:upper(), "\n") end
    return s:close()
  end, s)
  for i = 1, 100 do
    c:write("line ", i, "\n")
    assert(c:read_line() == "LINE " .. i)
  end
  c:close()
  print(echo:join())
end

-- the server speaks first; clients that leave at once
do
  pl.after(0, function()
    local c = listener:accept()
    c:write("220 hello\r\n")
    c:close()
  end)
  local c = assert(net.connect{host = "localhost", port = port, tls = {ca = "ca.pem"}})
  print(c:read_line(), c:read_line())
  c:close()
end

-- many writers and one reader, before the handshake is over
do
  local done = pl.channel.new()
  pl.after(0, function()
    local s = listener:accept()
    for i = 1, 5 do pl.after(0, function() s:write("fiber ", i, "\n") s:flush() done:send(true) end) end
    pl.after(0, function() print("read", s:read_line()) done:send(true) end)
    for _ = 1, 6 do done:recv() end
    s:close()
  end)
  local c = assert(net.connect{host = "127.0.0.1", port = port, tls = {ca = "ca.pem"}})
  c:write("question\n")
  local lines = {}
  for line in c:lines() do lines[#lines + 1] = line end
  table.sort(lines)
  print(table.concat(lines, ", "))
end

-- a socket of the file system has no name: the program says whom it means
do
  local l = net.listen("unix:tls.sock", {tls = {cert = "a.pem", key = "a.key"}})
  pl.after(0, function() local s = l:accept() s:write("over a file\n") s:close() l:close() end)
  local c = assert(net.connect{path = "tls.sock", tls = {ca = "ca.pem", name = "a.example"}})
  print(c:read_line(), c:info().tls.name)
  print(pcall(net.connect, {path = "tls.sock", tls = {ca = "ca.pem"}}))
end

-- whom the system trusts: the authority that SSL_CERT_FILE names
do
  pl.after(0, function() local s = listener:accept() s:write("trusted\n") s:close() end)
  local c = assert(net.connect{host = "localhost", port = port, tls = true})
  print(c:read_line())
  c:close()
end
listener:close()
