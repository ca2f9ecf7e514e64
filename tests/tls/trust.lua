-- Who is refused, and in what words: names, times, authorities, protocols, clients, files.
local net = require "perilune.net"
local pl = require "perilune"

-- What both ends are told when a client with these options meets a server with those.
local function meet(server, client, host)
  local l = assert(net.listen("127.0.0.1:0", {tls = server}))
  local _, port = l:address()
  local told = pl.channel.new()
  pl.after(0, function()
    local c = l:accept()
    told:send(table.pack(c:read_line()))
    c:close()
  end)
  local c, message, code = net.connect{host = "127.0.0.1", port = port, tls = client}
  if c then
    c:write("hello\n")
    c:flush()
  end
  -- With TLS 1.3 a client hears of a server's refusal at its first read.
  local after = c and table.pack(c:read_line())
  local server = told:recv()
  l:close()
  if c then
    print("  client:", c:info().tls.peer_name, table.unpack(after, 1, after.n))
  else
    print("  client:", code, message)
  end
  print("  server:", table.unpack(server, 1, server.n))
end

local server = {cert = "server.pem", key = "server.key"}
local function case(name, ...) print(name) meet(...) end

case("trusted", server, {ca = "ca.pem"})
case("wrong name", server, {ca = "ca.pem", name = "elsewhere.example"})
case("wrong address", {cert = "a.pem", key = "a.key"}, {ca = "ca.pem"})
case("right name", {cert = "b.pem", key = "b.key"}, {ca = "ca.pem", name = "x.b.example"})
case("a star is one label", {cert = "b.pem", key = "b.key"}, {ca = "ca.pem", name = "x.y.b.example"})
case("expired", {cert = "expired.pem", key = "expired.key"}, {ca = "ca.pem", name = "localhost"})
case("not yet valid", {cert = "early.pem", key = "early.key"}, {ca = "ca.pem", name = "localhost"})
case("unknown authority", server, {ca = "other_ca.pem"})
case("several authorities", server, {ca = {"other_ca.pem", "ca.pem"}})
case("signed by itself, unknown", {cert = "own.pem", key = "own.key"}, {ca = "ca.pem", name = "localhost"})
case("signed by itself, known", {cert = "own.pem", key = "own.key"}, {ca = "own.pem", name = "localhost"})
case("insecure", {cert = "expired.pem", key = "expired.key"}, {insecure = true, name = "nobody.example"})
case("a client's certificate used by a server", {cert = "alice.pem", key = "alice.key"}, {ca = "ca.pem", name = "alice.example"})

-- insecure connections leave nothing for others to resume
do
  local l = net.listen("127.0.0.1:0", {tls = server})
  local _, port = l:address()
  local function try(tls)
    pl.after(0, function() local c = l:accept() c:write("x\n") c:read_line() c:close() end)
    local c, message, code = net.connect{host = "127.0.0.1", port = port, tls = tls}
    if not c then return code, message end
    c:read_line()
    local resumed = c:info().tls.resumed
    c:close()
    return resumed
  end
  print("insecure", try{insecure = true})
  print("insecure again", try{insecure = true})
  print("secure after insecure", try{ca = "other_ca.pem"})
  l:close()
end

-- SNI: several names at one listener
local both = {certs = {{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}}}
case("SNI: the first", both, {ca = "ca.pem", name = "a.example"})
case("SNI: the second", both, {ca = "ca.pem", name = "b.example"})
case("SNI: a star", both, {ca = "ca.pem", name = "www.b.example"})
case("SNI: nobody", both, {ca = "ca.pem", name = "c.example"})

-- ALPN
local function with(alpn) return {cert = "server.pem", key = "server.key", alpn = alpn} end
case("ALPN: nothing in common", with{"h2"}, {ca = "ca.pem", alpn = {"imap", "pop3"}})
case("ALPN: only one end has some", with{"h2"}, {ca = "ca.pem"})
case("ALPN: only the other end", server, {ca = "ca.pem", alpn = "h2"})

-- certificates of clients
local strict = {cert = "server.pem", key = "server.key", client_ca = "ca.pem"}
case("a client that is known", strict, {ca = "ca.pem", cert = "alice.pem", key = "alice.key"})
case("a client without a certificate", strict, {ca = "ca.pem"})
case("a client of another authority", strict, {ca = "ca.pem", cert = "mallory.pem", key = "mallory.key"})
do
  local l = net.listen("127.0.0.1:0", {tls = strict})
  local _, port = l:address()
  local seen = pl.channel.new()
  pl.after(0, function()
    local c = l:accept()
    c:read_line()
    local info = c:info().tls
    seen:send(info.peer_name .. ": " .. table.concat(info.peer_names, ","))
    c:close()
  end)
  local function text(name) local f <close> = io.open(name) return f:read("a") end
  -- texts instead of files; a key in the same text as the certificate
  local c = assert(net.connect{host = "127.0.0.1", port = port,
    tls = {ca = text "ca.pem", cert = text "alice.pem" .. text "alice.key"}})
  c:write("\n")
  c:flush()
  print("the server sees", seen:recv())
  l:close()
end

-- a peer that does not speak TLS
do
  local l = net.listen("127.0.0.1:0")
  local _, port = l:address()
  pl.after(0, function() local c = l:accept() c:write("220 mail.example ESMTP\r\n") c:read() c:close() end)
  print(net.connect{host = "127.0.0.1", port = port, tls = {ca = "ca.pem"}})
  pl.after(0, function() l:accept():close() end)
  local _, message, code = net.connect{host = "127.0.0.1", port = port, tls = {ca = "ca.pem"}}
  print(code == "tls" or code == "reset", message:find("during the TLS handshake", 1, true) ~= nil or code == "reset")    -- what was sent to nobody may come back as a reset
  l:close()

  local l = net.listen("127.0.0.1:0", {tls = server})
  local told = pl.channel.new()
  pl.after(0, function() told:send(table.pack(l:accept():read())) end)
  local c = net.connect(l:endpoint())
  c:write("GET / HTTP/1.0\r\n\r\n")
  c:flush()
  print(table.unpack(told:recv()))
  c:close()
  l:close()
end

-- files and mistakes
print(net.listen("127.0.0.1:0", {tls = {cert = "none.pem", key = "server.key"}}))
print(net.listen("127.0.0.1:0", {tls = {cert = "server.key", key = "server.key"}}))
print(net.listen("127.0.0.1:0", {tls = {cert = "server.pem", key = "server.pem"}}))
print(net.listen("127.0.0.1:0", {tls = {cert = "server.pem", key = "a.key"}}))
print(net.connect{host = "localhost", port = 1, tls = {ca = "no such file"}})
print(net.connect{host = "localhost", port = 1, tls = {ca = "-----BEGIN CERTIFICATE-----\nrubbish"}})
for _, tls in ipairs {
  {}, {cert = 1}, {key = "server.key"}, {certs = "server.pem"}, {certs = {"server.pem"}}, {certs = {{key = "x"}}},
  {cert = "server.pem", alpn = {1}}, {cert = "server.pem", alpn = {""}}, {cert = "server.pem", ca = "ca.pem"},
} do
  print(select(2, pcall(net.listen, "127.0.0.1:0", {tls = tls})))
end
for _, tls in ipairs {{ca = 1}, {ca = {}}, {client_ca = "ca.pem"}, {name = "no name"}, {insecure = 1}} do
  print(select(2, pcall(net.connect, {host = "localhost", port = 1, tls = tls})))
end
print(select(2, pcall(net.connect, {host = "localhost", port = 1, tls = "yes"})))
print(select(2, pcall(net.listen, "127.0.0.1:0", {tls = true})))
