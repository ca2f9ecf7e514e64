-- Sessions that are resumed, TLS on connections that began without it, the file of keys, many at once.
local net = require "perilune.net"
local pl = require "perilune"

local server = {cert = "server.pem", key = "server.key"}
local l = assert(net.listen("127.0.0.1:0", {tls = server}))
local _, port = l:address()

-- resumption: the client has to have read what the server gives it for that
do
  local function once()
    local seen = pl.channel.new()
    pl.after(0, function()
      local c = l:accept()
      c:write("hello\n")
      c:read_line()
      seen:send(c:info().tls.resumed)
      c:close()
    end)
    local c = assert(net.connect{host = "localhost", port = port, tls = {ca = "ca.pem"}})
    c:read_line()
    c:write("bye\n")
    c:flush()
    local server = seen:recv()
    local info = c:info().tls
    c:close()
    return info.resumed, server, info.peer_name
  end
  print(once())
  print(once())
  print(once())
end

-- start_tls, as mail servers have it: words without TLS, then the session, on both ends
do
  local plain = net.listen("127.0.0.1:0")
  local _, port = plain:address()
  local told = pl.channel.new()
  pl.after(0, function()
    local c = plain:accept()
    c:write("220 ready\r\n")
    while true do
      local line = c:read_line()
      if not line then break end
      if line == "STARTTLS" then
        c:write("220 go ahead\r\n")
        told:send{c:start_tls(server)}
      elseif line == "QUIT" then
        c:write("221 bye ", c:info().tls and c:info().tls.protocol or "in the open", "\r\n")
        break
      else
        c:write("250 ", line, "\r\n")
      end
    end
    c:close()
  end)
  local c = net.connect{host = "localhost", port = port}
  print(c:read_line())
  c:write("STARTTLS\r\n")
  print(c:read_line())
  print("client", c:start_tls{ca = "ca.pem"})
  print("server", table.unpack(told:recv()))
  print(c:info().tls.name, c:start_tls{ca = "ca.pem"})
  c:write("EHLO me\r\n", "QUIT\r\n")
  print(c:read_line(), c:read_line(), c:read_line())

  -- nothing that was slipped in before the session counts as said in it
  pl.after(0, function()
    local c = plain:accept()
    c:read_line()
    told:send(table.pack(c:start_tls(server)))
    told:send(table.pack(c:read_line()))
    c:close()
  end)
  local c = net.connect{host = "localhost", port = port}
  c:write("STARTTLS\r\nEHLO slipped in\r\n")
  c:flush()
  pl.sleep(0.02)
  print("client", (select(3, c:start_tls{ca = "ca.pem"})))
  print("server", table.unpack(told:recv()))
  print("server", table.unpack(told:recv()))

  -- a server that is not who it should be; a server without a table
  pl.after(0, function() local c = plain:accept() c:start_tls(server) c:close() end)
  local c = net.connect{host = "127.0.0.1", port = port}
  print(c:start_tls{ca = "ca.pem", name = "a.example"})
  print(c:read())
  pl.after(0, function() plain:accept() end)
  local c = net.connect{host = "127.0.0.1", port = port}
  print(pcall(c.start_tls, c, {client_ca = "ca.pem"}))
  print(pcall(c.start_tls, c, {server = true}))
  c:close()

  -- who has connected may be the server
  pl.after(0, function()
    local c = plain:accept()
    told:send(table.pack(c:start_tls{server = false, ca = "ca.pem", name = "localhost"}))
    c:write("hi\n")
    c:close()
  end)
  local c = net.connect{host = "127.0.0.1", port = port}
  print("server that has connected", c:start_tls{server = true, cert = "server.pem", key = "server.key"})
  print("client that has accepted", table.unpack(told:recv()))
  print(c:read_line(), c:read_line())
  plain:close()
end

-- SSLKEYLOGFILE, which the test has set
do
  local kinds = {}
  for line in io.lines(os.getenv "SSLKEYLOGFILE") do kinds[line:match("^%S+")] = true end
  print(kinds.CLIENT_TRAFFIC_SECRET_0, kinds.SERVER_TRAFFIC_SECRET_0)
end

-- many at once, in two domains
do
  local n = 200
  local function serve(l)
    local pl = require "perilune"
    local served = 0
    pl.scope(function(scope)
      for c in l do
        served = served + 1
        scope:spawn(function()
          for line in c:lines() do c:write(line, " ", served > 0 and "ok" or "?", "\n") end
          c:close()
        end)
      end
    end)
    return served
  end
  local domains = {pl.domain.spawn(serve, l), pl.domain.spawn(serve, l)}
  local right = 0
  pl.scope(function(scope)
    local ready, go = pl.channel.new(), pl.channel.new(n)
    for i = 1, n do
      scope:spawn(function()
        local c = assert(net.connect{host = "127.0.0.1", port = port, tls = {ca = "ca.pem"}})
        ready:send(true)
        go:recv()
        for k = 1, 5 do
          c:write("client ", i, " says ", k, "\n")
          if c:read_line() == ("client %d says %d ok"):format(i, k) then right = right + 1 end
        end
        c:close()
      end)
    end
    for _ = 1, n do ready:recv() end
    for _ = 1, n do go:send(true) end
  end)
  l:close()
  print(right, domains[1]:join() + domains[2]:join())
end
