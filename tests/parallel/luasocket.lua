-- What LuaSocket has in C: sockets and their timeouts, datagrams, Unix sockets, select, names, filters for mail.
local socket = require "socket.core"
local pl = require "perilune"

local server = assert(socket.tcp4())
print(tostring(server):match "^tcp{master}", server:getfamily(), server:settimeout(5), server:gettimeout())
print(server:setoption("reuseaddr", true), server:getoption "reuseaddr")
print(server:bind("127.0.0.1", 0), server:listen())
print(tostring(server):match "^tcp{server}")
local ip, port, family = server:getsockname()
print(ip, math.type(port), family)

local function pair()
  local c = assert(socket.connect(ip, port))
  local s = assert(server:accept())
  return c, s
end

-- patterns, prefixes, partial results
do
  local c, s = pair()
  print(tostring(c):match "^tcp{client}", select(2, c:getpeername()) == port)
  print(c:send("one\r\ntwo\nthr"))
  print(s:receive(), s:receive "*l")
  s:settimeout(0.01)
  print(s:receive())
  print(c:send("three\n12345", 3))
  print(s:receive("*l", "th"))
  print(s:receive(2), s:receive(5, "ab"), s:dirty())
  print(s:receive(100, "x"))
  s:settimeout()
  c:send "the rest"
  c:shutdown "send"
  print(s:receive "*a")
  print(s:receive "*a")
  print(s:receive(0), s:receive(1))
  print(c:send("abcdef", 2, 3), c:send("abcdef", -2), c:send("abc", 3, 1))
  print(s:send "back")
  s:close()
  print(c:receive(10))
  c:close()
  print(c:send "x")
  print(c:receive(1))
  local received, sent, age = s:getstats()
  print(received, sent, age < 60)
  print(pcall(server.send, server, "x"))
  print(pcall(s.receive, s, "*x"))
end

-- timeouts: none, of a wait, of a call
do
  local c, s = pair()
  s:settimeout(0)
  print(s:receive())
  local feeder = pl.after(0, function()
    for _ = 1, 6 do c:send "x" pl.sleep(0.03) end
  end)
  s:settimeout(10)                     -- between bytes
  print(s:receive(6))
  feeder = pl.after(0, function()
    for _ = 1, 6 do c:send "y" pl.sleep(0.03) end
  end)
  s:settimeout(0.08, "t")              -- for all of them
  local _, problem, part = s:receive(6)
  print(problem, #part > 0 and #part < 6)
  c:settimeout(0)
  local sent, problem, last = c:send(("z"):rep(20000000))
  print(sent, problem, last > 0 and last < 20000000)
  c:close() s:close()
end

-- much, both ways, in fibers
do
  local c, s = pair()
  local n = 300000
  local text = ("0123456789"):rep(n)
  pl.scope(function(scope)
    scope:spawn(function() assert(c:send(text) == #text) c:shutdown "send" end)
    scope:spawn(function() assert(s:send(text) == #text) s:shutdown "send" end)
    local one = scope:spawn(function() return c:receive "*a" == text end)
    local other = scope:spawn(function() return s:receive(#text) == text end)
    print(one:await(), other:await())
  end)
  c:close() s:close()
end

-- closed under one who waits
do
  local c, s = pair()
  pl.after(0.01, function() s:close() end)
  print(s:receive())
  c:close()
end

-- connecting without waiting, as dispatchers do
do
  local c = socket.tcp()
  c:settimeout(0)
  local ok, problem = c:connect(ip, port)
  print(ok, ok or problem)
  local _, w = socket.select(nil, { c }, 5)
  print(w[1] == c, w[c])
  ok, problem = c:connect(ip, port)
  print(ok == 1 or problem == "already connected")
  local s = server:accept()
  s:send "there\n"
  local r, w, problem = socket.select({ c, server }, nil, 5)
  print(#r, r[1] == c, r[c], #w, problem)
  c:settimeout(5)
  print(c:receive(2))
  print(#socket.select({ c }, nil, 0), select(3, socket.select({ server }, {}, 0.01)))
  c:close() s:close()
  local refused = socket.tcp4()
  server:close()
  print(refused:connect(ip, port))
  print(server:accept())
end

-- select among fibers
do
  local l = socket.tcp4()
  l:bind("127.0.0.1", 0)
  l:listen()
  local _, port = l:getsockname()
  local order = {}
  pl.scope(function(scope)
    scope:spawn(function()
      local r = socket.select({ l }, nil, 5)
      order[#order + 1] = r[1] == l and "select"
      l:accept():close()
    end)
    scope:spawn(function() pl.sleep(0.005) order[#order + 1] = "sleep" socket.connect("127.0.0.1", port):close() end)
  end)
  print(table.concat(order, " "))
  l:close()
end

-- datagrams
do
  local a, b = socket.udp4(), socket.udp()
  print(tostring(a):match "^udp{unconnected}", a:setsockname("127.0.0.1", 0))
  local aip, aport = a:getsockname()
  print(b:setpeername(aip, aport), tostring(b):match "^udp{connected}", b:send "hello")
  local data, from, from_port = a:receivefrom()
  print(data, from, math.type(from_port))
  print(a:sendto("answer", from, from_port), b:receive())
  print(b:send "", #a:receive())
  a:settimeout(0.01)
  print(a:receive())
  print(a:sendto("x", "no.such.host", 9))
  print(pcall(a.send, a, "x"))
  print(b:setpeername "*", tostring(b):match "^udp{unconnected}")
  a:close() b:close()
end

-- Unix sockets
do
  local unix = require "socket.unix"
  local l = unix.stream()
  print(l:bind "luasocket.sock", l:listen(), l:getsockname())
  local c = unix.stream()
  print(c:connect "luasocket.sock")
  local s = l:accept()
  c:send "over a file\n"
  print(s:receive())
  print(unix.stream():connect "nobody.sock")
  os.remove "luasocket.sock"
end

-- protect and try
do
  local closed = 0
  local try = socket.newtry(function() closed = closed + 1 end)
  local f = socket.protect(function(...) return try(...) end)
  print(f(1, 2), closed)
  print(f(nil, "what is wrong"), closed)
  print(pcall(socket.protect(function() error("another", 0) end)))
  print(pcall(socket.protect(function() error({ 1 }) end)))
  print(socket.skip(1, "a", "b", "c"))
  print(coroutine.wrap(socket.protect(function() return coroutine.yield "through" end))())
end

-- names, time
print(socket.dns.toip "127.0.0.1")
print(socket.dns.getaddrinfo("127.0.0.1")[1].family, socket.dns.toip "no.such.name.invalid")
print(math.abs(socket.gettime() - os.time()) < 2, type(socket.dns.gethostname()))
local t = socket.gettime()
socket.sleep(0.02)
print(socket.gettime() - t >= 0.019)

-- filters: the same however the text is cut
local mime = require "mime.core"
local function all(filter, text, size)
  local out, kept = {}, ""
  for i = 1, #text, size do
    local made
    made, kept = filter(kept, text:sub(i, i + size - 1))
    out[#out + 1] = made
  end
  out[#out + 1] = filter(kept) or ""
  return table.concat(out)
end
local bytes = {}
for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
bytes = table.concat(bytes)
for _, size in ipairs { 1, 2, 3, 7, 256 } do
  local coded = all(mime.b64, bytes, size)
  assert(coded == mime.b64(bytes) and all(mime.unb64, coded, size) == bytes)
  local quoted = all(mime.qp, bytes .. " \r\n =", size)
  assert(quoted == mime.qp(bytes .. " \r\n ="))
end
print(mime.b64 "diego:password", mime.b64 "a", mime.b64 "ab", mime.b64(nil), (mime.unb64 "ZGllZ286cGFz c3dvcmQ="))
print(mime.qp "ma\xe7\xe3 = \t\r\nx", mime.unqp "ma=E7=e3 =3D=\r\nx=zz\r\n" == "ma\xe7\xe3 =x=zz\r\n")
print(mime.wrp(5, "abcdefghij", 5), mime.wrp(5, nil, 5), mime.wrp(3, nil, 5))
print(mime.qpwrp(6, "abc=E7def", 6))
print(mime.eol(0, "a\nb\r\nc\rd\n\re\n\n", "|"))
print(mime.dot(2, ".a\r\n.\r\n..b."))

-- What succeeds returns one value, as LuaSocket's functions in C do.
do
  local server = assert(socket.tcp())
  local s = assert(socket.tcp())
  print(select("#", server:bind("127.0.0.1", 0)), select("#", server:listen()))
  local _, port = server:getsockname()
  print(select("#", s:connect("127.0.0.1", port)), select("#", s:settimeout(1)))
  s:close()
  server:close()
end
