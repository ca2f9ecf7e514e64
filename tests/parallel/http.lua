-- Server and client: bodies, pools, redirects, limits of the client, draining, cancelling, taking over, files.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"

local function show(res, message, code)
  if not res then return print("nil", (message:gsub("%d+%.%d+%.%d+%.%d+:%d+", "ADDR")), code) end
  print(res.status, res.body and (res.body:gsub("%d+%.%d+%.%d+%.%d+:%d+", "ADDR"):gsub("\n", "|")))
end

-- A server of raw answers: each connection gets the next of them for each request that it sends. '' closes without a word.
local function raw_server(scope, answers)
  local l = assert(net.listen "127.0.0.1:0")
  local heads, connections = {}, 0
  scope:daemon(function()
    for c in l do
      connections = connections + 1
      scope:daemon(function()
        while true do
          local head = c:read_until "\r\n\r\n"
          if not head then break end
          heads[#heads + 1] = head
          local answer = table.remove(answers, 1)
          if not answer or answer == "" then break end
          if answer == "reset" then c:abort() break end
          c:write((answer:gsub("~", "\r\n")))
          c:flush()
          if answer:find "CLOSE" then break end
        end
        c:close()
      end)
    end
  end)
  return "http://" .. l:endpoint(), heads, function() return connections end
end

print "-- routes"
pl.scope(function()
  local srv = http.server()
  local function name(n) return function(req) return n .. " " .. (req.params.a or "") .. " " .. (req.params.rest or "") end end
  srv:get("/x", name "x"):get("/x/", name "x/"):get("/x/:a", name "one"):get("/x/special", name "special"):get("/x/:a/y", name "y")
  srv:get("/x/*rest", name "rest"):any("/any", function(req) return req.method end):route("PURGE", "/any", function() return "purged" end)
  local base = "http://" .. srv:listen("127.0.0.1:0"):endpoint()
  for _, path in ipairs { "/x", "/x/", "/x/1", "/x/special", "/x/%73pecial", "/x/1/y", "/x/1/z", "/x/a%2Fb", "/x//y", "/y", "/x/%2e%2e" } do
    io.write(path, " ") show(http.get(base .. path))
  end
  show(http.request { url = base .. "/any", method = "LOCK" })
  show(http.request { url = base .. "/any", method = "PURGE" })
  for _, bad in ipairs {
    function() srv:get("x", print) end, function() srv:get("/x", print) end, function() srv:get("/:a/:a", print) end, function() srv:get("/*a/b", print) end,
    function() srv:get("/:", print) end, function() srv:get("/z") end, function() srv:get("/z", print, { limit = 1 }) end, function() http.server { body_limits = 1 } end,
    function() http.server { body_limit = 0 } end, function() http.server { idle_timeout = "x" } end, function() http.server { idle_timeout = 0 / 0 } end, function() srv:listen("127.0.0.1:0"):close(0 / 0) end, function() srv:use(1) end, function() srv:listen(1) end, function() srv:listen("127.0.0.1", 0, { tsl = 1 }) end, function() srv:listen("127.0.0.1:0", { domain = 2 }) end, function() srv:listen("127.0.0.1", 65536) end,
    function() http.get(1) end, function() http.get("http://x", 1) end, function() http.get("ftp://x") end, function() http.request { method = "GET" } end, function() http.get("http://x", { redirects = -1 }) end,
    function() http.get("http://x", { body = {} }) end, function() http.get("http://x", { body = "x", json = 1 }) end, function() http.get("http://x", { tiemout = 1 }) end,
    function() http.get(base, { headers = { x = "a\r\nb: c" } }) end, function() http.get(base, { headers = { ["content-length"] = "5" }, body = "x" }) end,
    function() http.request { url = base, method = "A B" } end, function() http.events() end,
  } do
    local ok, message = pcall(bad)
    print(ok, message)
  end
end)

print "-- bodies"
pl.scope(function()
  local srv = http.server { body_limit = 1 << 24 }
  srv:post("/size", function(req)
    local n, pieces = 0, 0
    for piece in req:pieces(1000) do
      assert(#piece <= 1000)
      n, pieces = n + #piece, pieces + 1
    end
    return n .. " " .. tostring(pieces >= n // 1000)
  end)
  srv:post("/both", function(req) return { body = req:read(3) .. "|" .. req:text() .. "|" .. tostring(req:read()) } end)
  srv:post("/json", function(req) local v, m, c = req:json() return http.json(v and { got = v } or { code = c }) end)
  srv:post("/form", function(req) local f = req:form() return f.a .. f.b .. req:args().q end)
  srv:get("/big", function()
    local n = 0
    return { body = function() n = n + 1 if n <= 200 then return ("0123456789"):rep(1000) end end }
  end)
  local base = "http://" .. srv:listen("127.0.0.1:0"):endpoint()
  show(http.post(base .. "/size", { body = ("x"):rep(1000000) }))
  local left = 50
  local function pieces() left = left - 1 if left >= 0 then return ("y"):rep(20000) end end
  show(http.post(base .. "/size", { body = pieces }))
  left = 50
  show(http.post(base .. "/size", { body = pieces, headers = { ["Content-Length"] = 1000000 } }))
  show(http.post(base .. "/both", { body = "abcdef" }))
  show(http.post(base .. "/json", { json = { 1, "x" } }))
  show(http.post(base .. "/json", { body = "{" }))
  show(http.post(base .. "/form?q=%26", { form = { a = "1 +", b = "&=" } }))
  print(#http.get(base .. "/big").body)
  local res = http.get(base .. "/big", { stream = true })
  local n = 0
  for piece in res:pieces() do n = n + #piece end
  print(n, res:read())
  local res = http.get(base .. "/big", { stream = true })
  print(#res:read(10), #res:read(5))
  res:close()
  print(res:read())
  show(http.get(base .. "/big", { limit = 1999999 }))
  show(http.post(base .. "/size", { body = ("x"):rep((1 << 24) + 1) }))
end)

print "-- the pool"
pl.scope(function(scope)
  local pool = http.pool()
  local base, heads, connections = raw_server(scope, {
    "HTTP/1.1 200 OK~Content-Length: 2~~ok", "HTTP/1.1 200 OK~Transfer-Encoding: chunked~~2~ok~0~~", "HTTP/1.1 200 OK~Content-Length: 2~Connection: close~~ok",
    "HTTP/1.1 200 OK~~until the end CLOSE", "HTTP/1.0 200 OK~Content-Length: 2~~ok",
    -- a dead connection: once more for GET, not for POST
    "HTTP/1.1 200 OK~Content-Length: 2~~ok", "", "HTTP/1.1 200 OK~Content-Length: 5~~again", "", "HTTP/1.1 200 OK~Content-Length: 2~~ok", "reset", "HTTP/1.1 200 OK~Content-Length: 2~~ok",
    -- a fresh one: never
    "", "HTTP/1.1 100 Continue~~HTTP/1.1 103 Early Hints~Link: x~~HTTP/1.1 200 OK~Content-Length: 4~~late",
  })
  local function go(method)
    local res, message, code = http.request { url = base, method = method, pool = pool }
    show(res, message, code)
    io.write("  ", pool:count(), " kept, ", connections(), " made\n")
  end
  go "GET" go "GET" go "GET" go "GET" go "GET" go "GET" go "GET" go "POST" go "GET" go "GET"
  pool:close()
  go "GET" go "GET"
  print(#heads, (heads[1]:gsub("127.0.0.1:%d+", "ADDR"):gsub("\r\n", "~"):gsub("~host.*", "")))
end)

print "-- what is no response"
pl.scope(function(scope)
  for _, answer in ipairs {
    "SSH-2.0-x~", "HTTP/1.1 200 OK~Content-Length: 2~Content-Length: 3~~okk", "HTTP/1.1 200 OK~Content-Length: 2~Transfer-Encoding: chunked~~0~~",
    "HTTP/1.1 200 OK~A: b~ folded~~", "HTTP/1.1 200 OK~Transfer-Encoding: chunked~~x~~", "HTTP/1.1 200 OK~Content-Length: 20~~CLOSE", "HTTP/1.1 101 Switching~~",
    "HTTP/1.1 200 OK~Transfer-Encoding: chunked~~2~ok~CLOSE", "HTTP/1.1 200 OK\nA: b\n\n", "HTTP/1.1 200 OK~Content-Encoding: gzip~Content-Length: 5~~xxxxx", "HTTP/1.1 200 OK~A: " .. ("x"):rep(70000),
  } do
    show(http.get((raw_server(scope, { answer })), { pool = false }))
  end
  -- and slow ones
  local base = raw_server(scope, { "HTTP/1.1 200 OK~", "HTTP/1.1 200 OK~Content-Length: 3~~x" })
  show(http.get(base, { timeout = 0.03, pool = false }))
  show(http.get(base, { timeout = 0.03, pool = false }))
end)

print "-- redirects"
pl.scope(function(scope)
  local srv = http.server()
  srv:any("/to/:status", function(req) return http.redirect("/end?" .. req.params.status, tonumber(req.params.status)) end)
  srv:any("/end", function(req) return req.method .. " " .. req.query .. " " .. req:text() .. " " .. tostring(req.headers.authorization) end)
  srv:get("/loop", function() return http.redirect "/loop" end)
  srv:get("/out", function(req) return http.redirect(req:args().to) end)
  local base = "http://" .. srv:listen("127.0.0.1:0"):endpoint()
  for _, status in ipairs { 301, 302, 303, 307, 308 } do
    show(http.post(base .. "/to/" .. status, { body = "b", headers = { Authorization = "secret" } }))
  end
  show(http.put(base .. "/to/302", { body = "b" }))
  show(http.get(base .. "/loop"))
  show(http.get(base .. "/loop", { redirects = 2 }))
  show(http.get(base .. "/loop", { redirects = false }))
  show(http.get(base .. "/out?to=ftp://x"))
  show(http.post(base .. "/to/307", { body = coroutine.wrap(function() coroutine.yield "x" end) }))
  -- another host gets no secrets
  local other, heads = raw_server(scope, { "HTTP/1.1 200 OK~Content-Length: 2~~ok" })
  local res = http.get(base .. "/out?to=" .. http.escape(other .. "/x"), { headers = { authorization = "secret", cookie = "c", x = "stays" } })
  print(res.url == other .. "/x", heads[1]:find "authorization", heads[1]:find "cookie", heads[1]:find "x: stays" ~= nil)
end)

-- Waits until a server has so many connections.
local function until_connections(l, n)
  local ends = pl.now() + 200
  while l:info().connections ~= n and pl.now() < ends do pl.sleep(0.005) end
  return l:info().connections
end

print "-- times and numbers of a server"
pl.scope(function(scope)
  local reported = {}
  local srv = http.server {
    header_timeout = 0.6, idle_timeout = 0.6, body_timeout = 0.6, body_rate = 1000000, write_timeout = 0.6, max_connections = 3,
    on_error = function(text) reported[#reported + 1] = text end,
  }
  srv:get("/", function() return "root" end)
  srv:get("/slow", function() pl.sleep(10) return "never" end, { timeout = 0.03 })
  srv:post("/", function(req) return assert(req:text()) end)
  srv:get("/flood", function() return { body = function() return ("x"):rep(100000) end } end)
  -- The first piece is there before the server begins to wait for it, however long the machine stands still.
  local function raw(...)
    local listener <close> = net.listen "127.0.0.1:0"
    local c <close> = net.connect(listener:endpoint())
    local l
    for n, text in ipairs { ... } do
      c:write(text)
      c:flush()
      l = l or srv:listen(listener)
      if text ~= "" then pl.sleep(0.15) end
    end
    print((assert(c:read_all()):gsub("\r\n.*\r\n\r\n", " ", 1):gsub("\n", "|")))
  end
  raw("")
  raw("GET / HTTP/1.1\r\n")
  raw("G", "E", "T", " ", "/", " ", "H")
  raw("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
  raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nx")
  raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 50\r\n\r\n", "x", "x", "x", "x", "x", "x", "x", "x", "x")
  raw("GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
  -- a client that never reads
  local l = srv:listen "127.0.0.1:0"
  local c = net.connect(l:endpoint())
  c:write("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n")
  c:flush()
  print(until_connections(l, 0))
  c:abort()
  print((srv:listen("127.0.0.1", 0, { backlog = 5 }):address()))
  -- three idle connections give way to a fourth
  local srv = http.server { max_connections = 3 }
  srv:get("/", function() return "root" end)
  local l = srv:listen "127.0.0.1:0"
  local idle = {}
  for n = 1, 3 do idle[n] = net.connect(l:endpoint()) end
  print(until_connections(l, 3), http.get("http://" .. l:endpoint(), { pool = false }).body)
  for n = 1, 3 do idle[n]:close() end
  -- a request that has come is answered before the end, and so is one behind which more has come
  local listener = net.listen "127.0.0.1:0"
  local late, more = net.connect(listener:endpoint()), net.connect(listener:endpoint())
  more:write "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /"
  more:flush()
  local l = srv:listen(listener)
  print(more:read_all():match "[^\n]*$", more:close(), until_connections(l, 1))
  late:write "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
  late:flush()
  -- Nobody else has a turn between the two.
  print(l:close(60), late:read_all():match "[^\n]*$")
  -- and so is one whose connection nobody has accepted
  for domains = 0, 2, 2 do
    local l = srv:listen("127.0.0.1:0", domains > 0 and { domains = domains } or nil)
    -- It begins to accept.
    for _ = 1, 10 do pl.yield() end
    local sent = pl.atomic(0)
    local client = pl.domain.spawn(function(address, sent)
      local c <close> = require "perilune.net".connect(address)
      c:write "GET / HTTP/1.1\r\nHost: h\r\n\r\n"
      c:flush()
      sent:store(1)
      return c:read_all():match "[^\n]*$"
    end, l:endpoint(), sent)
    -- Without a wait, in which the listener would have its turn.
    while sent:load() == 0 do end
    print(l:close(60), client:join())
  end
  for _, text in ipairs(reported) do print((text:gsub("\n.*", ""))) end
end)

print "-- closing"
pl.scope(function(scope)
  local srv = http.server { on_error = print }
  local ended, began = {}, pl.channel.new()
  srv:get("/wait/:s", function(req)
    began:send(true)
    local mark <close> = setmetatable({}, { __close = function() ended[#ended + 1] = req.params.s end })
    pl.sleep(tonumber(req.params.s))
    return "waited"
  end)
  local function start()
    local l = srv:listen "127.0.0.1:0"
    local base = "http://" .. l:endpoint()
    local idle = net.connect(l:endpoint())
    idle:write("GET /wait/0 HTTP/1.1\r\nHost: h\r\n\r\n")
    idle:read_until "\r\n\r\n" idle:read_exact(6)
    began:recv()
    return l, base, idle
  end
  local l, base, idle = start()
  local busy = scope:spawn(function() return http.get(base .. "/wait/0.2", { pool = false }) end)
  began:recv()
  print(l:info().connections, l:info().idle)
  print(l:close(5), idle:read())
  local res = busy:await()
  print(res.body, res.headers.connection, (select(3, net.connect(l:endpoint()))))
  -- too long: cancelled
  local l, base, idle = start()
  local busy = scope:spawn(function() return http.get(base .. "/wait/100", { pool = false }) end)
  began:recv()
  print(l:close(0.02))
  show(busy:await())
  print(table.concat(ended, " "), l:info().connections)
  -- the scope ends: so do the listener and its connections
  local address
  pl.scope(function()
    local l = srv:listen "127.0.0.1:0"
    address = l:endpoint()
    pl.fiber(function() show(http.get("http://" .. address .. "/wait/0.01")) end)
  end)
  print((net.connect(address)))
  -- run ends when it is cancelled
  print(pl.timeout(0.1, function() return srv:run("127.0.0.1:0", function(l) address = l:endpoint() end) end))
  print((net.connect(address)))
  print(pcall(srv.run, srv, "127.0.0.1:1x"))
end)

print "-- a client that is cancelled"
pl.scope(function(scope)
  local pool = http.pool()
  local base, heads, connections = raw_server(scope, { "HTTP/1.1 200 OK~Content-Length: 100~~some", "HTTP/1.1 200 OK~Content-Length: 2~~ok" })
  print(pl.timeout(0.3, function() return http.get(base, { pool = pool }) end))
  print(pool:count())
  show(http.get(base, { pool = pool }))
  print(pool:count(), connections())
end)

print "-- another protocol"
pl.scope(function()
  local srv = http.server()
  srv:get("/up", function(req)
    local c <close> = assert(req:upgrade { upgrade = "lines" })
    for line in c:lines() do c:write("<", line, ">\n") end
  end)
  srv:get("/raw", function(req)
    local c = req:take()
    print(pcall(req.take, req))
    c:write("raw ", c:read_line(), "\n")
    c:close()
  end)
  srv:get("/no", function(req) return req:upgrade { upgrade = "x" } end)
  srv:use(function(req, next)
    local res = next(req)
    if res then res.headers.seen = "yes" end
    return res
  end)
  local l = srv:listen "127.0.0.1:0"
  local c, res = http.upgrade { url = "http://" .. l:endpoint() .. "/up", headers = { upgrade = "lines" } }
  print(res.status, res.headers.upgrade, res.headers.connection)
  c:write("a\nb\n")
  print(c:read_line(), c:read_line())
  c:close()
  local c = net.connect(l:endpoint())
  -- what is behind the head is the new protocol's
  c:write("GET /up HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: lines\r\n\r\nearly\n")
  print(c:read_line(), (c:read_until "\r\n\r\n"):find "upgrade: lines" ~= nil, c:read_line())
  c:close()
  local c = net.connect(l:endpoint())
  c:write("GET /raw HTTP/1.1\r\nHost: h\r\n\r\nbytes\n")
  print(c:read_all())
  print(select(2, http.upgrade { url = "http://" .. l:endpoint() .. "/nowhere", headers = { upgrade = "x" } }) ~= nil,
    (select(3, http.upgrade { url = "http://" .. l:endpoint() .. "/nowhere", headers = { upgrade = "x" } })))
end)

print "-- errors of coroutines that the library calls"
pl.scope(function()
  local srv = http.server { on_error = function(text) print((text:gsub("\n.*", ""))) end }
  local function broken() return coroutine.wrap(function() error "no luck" end) end
  srv:get("/body", function() return { body = broken() } end):get("/stream", function() return { stream = broken() } end):get("/handler", broken())
  local base = "http://" .. srv:listen("127.0.0.1:0"):endpoint()
  for _, path in ipairs { "/body", "/stream", "/handler" } do http.get(base .. path) end
  print(pcall(coroutine.wrap(function() coroutine.wrap(function() error "no luck" end)() end)))
end)

print "-- files"
pl.scope(function()
  os.execute "mkdir -p pub/sub .x && echo index > pub/index.html && echo hidden > pub/.secret && echo out > outside.txt && echo page > pub/sub/a.txt && ln -sf ../outside.txt pub/link && ln -sf sub/a.txt pub/inner"
  local big = io.open("pub/big.bin", "wb")
  big:write(("0123456789"):rep(20000))
  big:close()
  local srv = http.server()
  srv:static("/s", "pub")
  local l = srv:listen "127.0.0.1:0"
  local base = "http://" .. l:endpoint()
  -- raw, since addresses lose their dots before they are sent
  local function get(path)
    local c = net.connect(l:endpoint())
    c:write("GET ", path, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
    local all = c:read_all()
    c:close()
    print(path, all:match "^HTTP/1.1 (%d+)", all:match "content%-type: ([^\r]*)", #all < 500 and (all:match "\r\n\r\n(.*)":gsub("\n", "|")) or #all:match "\r\n\r\n(.*)")
  end
  for _, path in ipairs {
    "/s/", "/s/index.html", "/s/sub/a.txt", "/s/sub", "/s/sub/", "/s/inner", "/s/big.bin", "/s/nowhere", "/s/.secret", "/s/link", "/s/../outside.txt", "/s/%2e%2e/outside.txt",
    "/s/sub/..%2f..%2foutside.txt", "/s/sub/%2e%2e/index.html", "/s/..%5coutside.txt", "/s//etc/passwd", "/s/%2fetc/passwd", "/s/a%00b", "/s/sub/a.txt/",
  } do get(path) end
  local res = http.get(base .. "/s/sub/a.txt")
  show(http.get(base .. "/s/sub/a.txt", { headers = { ["if-none-match"] = res.headers.etag } }))
  print(http.head(base .. "/s/big.bin").headers["content-length"], #http.get(base .. "/s/big.bin").body)
  -- ranges: of a file that goes at once, of one that goes in pieces; those that are none, several, of another file
  local function part(path, range, more)
    local headers = more or {}
    headers.range = range
    local res = http.get(base .. path, { headers = headers })
    local body = res.body
    print(path, range, res.status, res.headers["content-range"], #body > 20 and body:sub(1, 5) .. ".." .. body:sub(-5) .. " " .. #body or body:gsub("\n", "|"))
  end
  for _, range in ipairs { "bytes=0-0", "bytes=1-2", "bytes=2-", "bytes=-2", "bytes=-100", "bytes=3-100", "Bytes=0-99", "bytes=5-", "bytes=-0", "bytes=2-1", "bytes=0-1,3-4", "bytes=-", "lines=0-1", "bytes=99999999999999999999-" } do
    part("/s/sub/a.txt", range)
  end
  for _, range in ipairs { "bytes=199999-", "bytes=100003-", "bytes=7-100000", "bytes=-70001", "bytes=200000-" } do part("/s/big.bin", range) end
  part("/s/sub/a.txt", "bytes=1-2", { ["if-range"] = res.headers.etag })
  part("/s/sub/a.txt", "bytes=1-2", { ["if-range"] = res.headers["last-modified"] })
  part("/s/sub/a.txt", "bytes=1-2", { ["if-range"] = '"another"' })
  part("/s/sub/a.txt", "bytes=1-2", { ["if-none-match"] = res.headers.etag })
  local head = http.head(base .. "/s/big.bin", { headers = { range = "bytes=1-2" } })
  print(head.status, head.headers["accept-ranges"], head.headers["content-length"])
end)

print "-- compression"
pl.scope(function()
  local srv = http.server()
  srv:use(http.gzip())
  srv:get("/", function() return ("text "):rep(100000) end)
  local base = "http://" .. srv:listen("127.0.0.1:0"):endpoint()
  local res = http.get(base)
  print(#res.body, res.headers["content-encoding"])
  local res = http.get(base, { gzip = false })
  print(#res.body, res.headers["content-encoding"])
  local res = http.get(base, { headers = { ["accept-encoding"] = "br, gzip;q=0.5" } })
  print(#res.body < 5000, res.headers["content-encoding"])
  print(http.get(base, { headers = { ["accept-encoding"] = "gzip;q=0" } }).headers["content-encoding"])
  show(http.get(base, { limit = 499999 }))
  local res = http.get(base, { stream = true })
  print(#res:read(7), #res:text())
end)

print "-- events, and addresses"
pl.scope(function()
  local srv = http.server { on_error = function(text) print((text:match "[^\n]*")) end }
  srv:get("/", function()
    return http.events(function(events)
      events:send "one"
      events:send { data = "two\nlines", event = "e", id = 7, retry = 100 }
      events:comment "still here"
      print(pcall(events.send, events, { id = "a\nb" }))
    end)
  end)
  local res = http.get("http://" .. srv:listen("127.0.0.1:0"):endpoint())
  print(res.headers["content-type"], (res.body:gsub("\n", "|")))
end)
local url = http.url "HTTP://Example.ORG:80/a/../b?c=d#e"
print(url.scheme, url.host, url.port, url.authority, url.path, url.query, url.target, url.text)
print(http.url "http://u:p@h/")
print(http.escape "a b/ä", http.unescape("a%20b+c"), http.unescape("a+b", true), http.unescape "%x")
print(http.encode_query { a = { 1, 2 }, b = "x y" }, http.decode_query("a=1&a=2&b=x+y").a)

print "-- OPTIONS about the server, which has no route '/'"
pl.scope(function()
  local srv = http.server():get("/a", function() return "" end):post("/b", function() return "" end):any("/c", function() return "" end)
  local c <close> = assert(require "perilune.net".connect(srv:listen("127.0.0.1:0"):endpoint()))
  c:write "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
  local all = c:read_all()
  print(all:match "^[^\r]*", all:match "allow: [^\r]*", all:match "\n(HTTP/1.1 4[^\r]*)")
end)
