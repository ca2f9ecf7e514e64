-- LuaSec's interface: ssl.wrap, ssl.newcontext, ssl.https, as programs that were written for it use them.
local pl = require "perilune"
local socket = require "socket.core"
local ssl = require "ssl"

local SERVER = { mode = "server", protocol = "any", certificate = "server.pem", key = "server.key", options = "all", verify = "none" }
local CLIENT = { mode = "client", protocol = "any", cafile = "ca.pem", verify = "peer", options = { "all", "no_sslv3" } }

local listener = socket.tcp4()
assert(listener:bind("127.0.0.1", 0) and listener:listen(16))
local _, port = listener:getsockname()

local function with(params, changes)
  local all = {}
  for name, value in pairs(params) do all[name] = value end
  for name, value in pairs(changes or {}) do all[name] = value end
  return all
end

-- What a server has to say, which is printed when it has ended.
local said = {}
local function say(...) said[#said + 1] = table.pack("server", ...) end
local function scope_of(f)
  pl.scope(f)
  for _, one in ipairs(said) do print(table.unpack(one, 1, one.n)) end
  said = {}
end

-- A client that is wrapped, and what 'serve' does with the server's end.
local function connect(scope, serve, params, server_params)
  scope:spawn(function()
    local c = assert(listener:accept())
    c = assert(ssl.wrap(c, server_params or SERVER))
    serve(c, c:dohandshake())
    c:close()
  end)
  local s = socket.tcp4()
  assert(s:connect("127.0.0.1", port))
  local c = assert(ssl.wrap(s, params or CLIENT))
  assert(s:getfd() == -1 and c:getfd() >= 0, "the descriptor is the wrapped one's")
  return c
end

print "-- a conversation"
scope_of(function(scope)
  local c = connect(scope, function(c, ok, why)
    say(ok, why, c:getsniname())
    while true do
      local line, problem, rest = c:receive()
      if not line then
        say(problem, rest)
        break
      end
      assert(c:send(line:upper() .. "\r\n"))
    end
  end)
  print(c:send "early", c:receive())
  c:sni "localhost"
  print(c:dohandshake())
  print(c:dohandshake(), c:info "protocol", c:info().cipher, c:getpeerverification())
  print(c:send "one\ntwo\nthr", c:send("xxee\n", 3), c:send("four\nxx", 1, 5), c:send("", 1, 0))
  print(c:receive(), c:receive "*l", c:receive("*l", "> "), c:receive(2), c:receive(4, "UR"))
  c:settimeout(0)
  print(c:receive() == "")
  print((select(2, c:receive())), c:want())
  c:settimeout(0.02)
  print((select(2, c:receive(3))), c:dirty())
  c:settimeout(nil)
  c:send "some of a line"
  c:close()
  print(c:send "x")
end)

print "-- until the end; a long text; select and dirty"
scope_of(function(scope)
  local text = ("0123456789abcdef"):rep(20000)
  local c = connect(scope, function(c)
    assert(c:receive "*l" == "go")
    say(c:send(text))
  end, with(CLIENT, { alpn = { "two", "one" } }), with(SERVER, { alpn = { "one", "two" } }))
  c:sni "localhost"
  assert(c:dohandshake())
  print(c:getalpn(), #c:getpeercertificate():pem() > 300, c:getpeercertificate():subject()[1].value)
  c:send "go\n"
  -- Readable, and again while something decrypted is there.
  local function readable() local list = socket.select({ c }, nil, 10) return list[1] == c end
  print(readable(), c:receive(10), readable(), c:dirty())
  print(#c:receive "*a", c:receive "*a")
  print(c:receive(1))
end)

print "-- without waiting, as a dispatcher does"
scope_of(function(scope)
  local gate = pl.channel.new()
  scope:spawn(function()
    local c = assert(listener:accept())
    gate:recv()
    c = assert(ssl.wrap(c, SERVER))
    c:settimeout(0)
    local turns = 0
    while true do
      local ok, why = c:dohandshake()
      if ok then break end
      assert(why == "wantread" or why == "wantwrite", why)
      turns = turns + 1
      socket.select({ c }, nil, 10)
    end
    local line
    repeat
      socket.select({ c }, nil, 10)
      local part, why, rest = c:receive "*l"
      line = (line or "") .. (part or rest)
    until part
    say(line, turns < 100)
    c:close()
  end)
  local s = socket.tcp4()
  assert(s:connect("127.0.0.1", port))
  local c = assert(ssl.wrap(s, ssl.newcontext(CLIENT)))
  c:sni "localhost"
  c:settimeout(0)
  local ok, why = c:dohandshake()
  print(ok, why)
  gate:send(true)
  while not c:dohandshake() do socket.select({ c }, nil, 10) end
  c:send "in "
  c:send "parts\n"
  c:settimeout(10)
  print(c:receive())
  c:close()
end)

print "-- who is refused"
local function refused(params, name, server_params)
  pl.scope(function(scope)
    local c = connect(scope, function() end, params, server_params)
    if name then c:sni(name) end
    local ok, why = c:dohandshake()
    -- In TLS 1.3 a client hears only afterwards that its certificate was not enough.
    if ok then ok, why = c:receive() end
    print(ok, why)
    c:close()
  end)
end
refused(CLIENT)
refused(CLIENT, "elsewhere.example")
refused(with(CLIENT, { cafile = "other_ca.pem" }), "localhost")
refused(with(CLIENT, { verify = "none" }))
refused(CLIENT, "localhost", with(SERVER, { verify = { "peer", "fail_if_no_peer_cert" }, cafile = "ca.pem" }))

print "-- mistakes"
print(ssl.newcontext { mode = "client", protocol = "sslv3" })
print(ssl.newcontext { mode = "both" })
print(ssl.newcontext(with(SERVER, { key = "missing.key" })))
print(ssl.newcontext(with(CLIENT, { capath = "/etc/ssl" })))
print(ssl.newcontext(with(SERVER, { verify = "peer" })))
print((select(2, pcall(ssl.newcontext)):gsub("^.-: ", "")))
print((select(2, pcall(ssl.wrap, {}, CLIENT)):gsub("^.-: ", "")))

print "-- ssl.https, above what makes sockets for socket.http"
-- Stand-ins for LuaSocket's Lua files, as far as it takes one request.
package.preload["socket.url"] = function()
  return {
    parse = function(text, default)
      local scheme, host, given, path = text:match "^(%w+)://([^:/]+):?(%d*)(.*)$"
      return { scheme = scheme, host = host, port = given ~= "" and given or default.port, path = path }
    end,
    build = function(u) return u.scheme .. "://" .. u.host .. ":" .. u.port .. u.path end,
  }
end
package.preload["ltn12"] = function()
  return { sink = { table = function(t) return function(piece) t[#t + 1] = piece return 1 end end } }
end
package.preload["socket.http"] = function()
  return { request = function(wish)
    local host, number, path = wish.url:match "^https://([^:]+):(%d+)(.*)$"
    local c = assert(wish.create())
    c:settimeout(10)
    local ok, why = c:connect(host, number)
    if not ok then return nil, why end
    c:send("GET " .. path .. " HTTP/1.0\r\nHost: " .. host .. "\r\n\r\n")
    local status = c:receive()
    local headers = {}
    for line in function() return c:receive() end do
      if line == "" then break end
      headers[line:match "^[^:]*"] = line:match ": (.*)"
    end
    wish.sink(c:receive "*a")
    c:close()
    return 1, tonumber(status:match " (%d+)"), headers, status
  end }
end
local https = require "ssl.https"
local http = require "perilune.http"
pl.scope(function()
  local server = http.server()
  server:get("/x", function() return "over TLS" end)
  local l = assert(server:listen("127.0.0.1:0", { tls = { cert = "server.pem", key = "server.key" } }))
  local base = "https://localhost:" .. select(2, l:address())
  local body, code, headers, status = https.request(base .. "/x")
  print(body, code, headers["content-length"], status)
  local parts = {}
  print(https.request { url = base .. "/x", cafile = "ca.pem", sink = function(piece) parts[#parts + 1] = piece return 1 end } == 1, table.concat(parts))
  print(https.request { url = base .. "/x", cafile = "other_ca.pem" })
  print(https.request "http://localhost/", https.request { url = base, redirect = true })
  l:close(0)
end)
