-- Listeners that are served, in this domain and in several: l:serve, http.server's listen and run, rpc.serve.
local pl, net, http, rpc = require "perilune", require "perilune.net", require "perilune.http", require "perilune.rpc"

local function listen() return assert(net.listen "127.0.0.1:0") end

local function here(text) return (text:gsub("^[^:]*:%d+: ", ""):gsub("%.%s.*", "")) end

-- What does not cross is refused before anything begins.
do
  local n = 0
  local function failure(f, ...) return here(select(2, pcall(f, ...))) end
  print(failure(function() listen():serve(function() n = n + 1 end, { domains = 2 }) end))
  print(failure(function()
    local server = http.server()
    server:get("/", function() n = n + 1 return "" end)
    return server:listen("127.0.0.1:0", { domains = 2 })
  end))
  print(failure(function() return rpc.serve(listen(), { f = function() n = n + 1 end }, { domains = 2 }) end))
  print(failure(function() listen():serve(print, { domains = 2, on_error = function() n = n + 1 end }) end))
  print(failure(function() http.server():use(function() n = n + 1 end):listen("127.0.0.1:0", { domains = 2 }) end))
  print(failure(function() http.server { on_error = function() n = n + 1 end }:listen("127.0.0.1:0", { domains = 2 }) end))
  print(failure(function() http.server():route("PURGE", "/x", function() n = n + 1 end):listen("127.0.0.1:0", { domains = 2 }) end))
  local l = listen()
  for _, options in ipairs { { domain = 2 }, { domains = 0 }, { grace = "x" }, { grace = 0 / 0 }, { max = 0 }, { on_error = 1 } } do
    print(failure(l.serve, l, print, options))
  end
  print(failure(function() return http.server():listen("127.0.0.1:0", { domains = 1.5 }) end))
  print(failure(rpc.serve, l, {}, { domains = "two" }))
  print(pl.domain.count())
end

-- The same with and without domains.
local function serve(handler, options, f)
  local l = listen()
  local ended
  pl.scope(function(s)
    local served = s:spawn(function() return l:serve(handler, options) end)
    f(l)
    l:close()
    ended = served:await()
  end)
  return ended
end

for _, domains in ipairs { 0, 2 } do
  print("--", domains)
  if domains == 0 then domains = nil end
  local told = pl.channel.new(8)
  local function on_error(text) told:send(here(text:match "^[^\n]*")) end
  local function handler(c)
    if c:read_line() == "bad" then error "on purpose" end
    c:write "fine\n"
  end
  print(serve(handler, { domains = domains, on_error = on_error }, function(l)
    local a, b = net.connect(l:endpoint()), net.connect(l:endpoint())
    a:write "bad\n"
    b:write "good\n"
    print((a:read_line()))
    print(b:read_line())
    print(told:recv())
  end))

  -- What runs when the listener is closed gets its time,
  local client
  print(serve(function(c)
    c:write "there\n"
    c:read_line()
    pl.sleep(0.05)
    c:write "done\n"
  end, { domains = domains, grace = 60 }, function(l)
    client = net.connect(l:endpoint())
    client:read_line()
    client:write "go\n"
    client:flush()
  end), client:read_line())

  -- and no more than that.
  print(serve(function(c)
    c:write "there\n"
    pl.sleep(600)
  end, { domains = domains, grace = 0.05 }, function(l)
    client = net.connect(l:endpoint())
    client:read_line()
  end), (client:read_line()))

  -- Who leaves takes all along.
  pl.scope(function(s)
    local l = listen()
    s:daemon(function()
      l:serve(function(c)
        c:write "there\n"
        pl.sleep(600)
      end, { domains = domains })
    end)
    client = net.connect(l:endpoint())
    print(client:read_line())
  end)
  print((client:read_line()))
end

local greeting = "hello "
local function names(list)
  table.sort(list)
  return table.concat(list, " ")
end

-- HTTP: routes, middleware and files are there in each domain.
do
  local server = http.server { on_error = function(text) io.stdout:write("reported: ", here(text:match "^[^\n]*"), "\n") end }
  server:use(function(req, following)
    local res = following(req)
    res.headers.served = pl.domain.self():name()
    return res
  end)
  server:get("/hi/:who", function(req) return greeting .. req.params.who end)
  server:get("/slow", function() pl.sleep(600) end)
  server:get("/fail", function() error "oops" end)
  server:use(http.gzip())
  pl.scope(function()
    local l = assert(server:listen("127.0.0.1:0", { domains = 2 }))
    local url = "http://" .. l:endpoint()
    print(http.get(url .. "/hi/you").body, http.get(url .. "/fail").status, http.get(url .. "/none").status)
    -- The connections of http.get are there still, or are not: four more reach both.
    local seen, known, first = {}, {}, nil
    for _ = 1, 4 do
      local c = net.connect(l:endpoint())
      first = first or c
      known[#known + 1] = c
      c:write "GET /hi/x HTTP/1.1\r\nhost: x\r\n\r\n"
      local head = c:read_until "\r\n\r\n"
      seen[head:match "[sS]erved: ([^\r]*)"] = true
      c:read_exact(7)
    end
    print(seen["http 1"], seen["http 2"])
    local info = l:info()
    print(info.served, info.connections >= #known, info.closing)
    first:write "GET /slow HTTP/1.1\r\nhost: x\r\n\r\n"
    first:flush()
    repeat pl.sleep(0.01) until l:info().served > info.served
    print(l:close(0.05), l:info().closing, (net.connect(l:endpoint())))
  end)
  print(server:run("127.0.0.1:0", { domains = 2 }, function(l)
    print(http.get("http://" .. l:endpoint() .. "/hi/me").body)
    l:close()
  end))
end

-- Remote calls: connections go on when the listener is closed, until the scope ends.
pl.scope(function()
  local l = listen()
  local accepting = rpc.serve(l, {
    add = function(a, b) return a + b, pl.domain.self():name() end,
    fail = function() error("no", 0) end,
  }, { domains = 2 })
  local a, b = assert(rpc.connect(l:endpoint())), assert(rpc.connect(l:endpoint()))
  local sum, one = a:add(1, 2)
  local _, other = b:add(3, 4)
  print(sum, names { one, other })
  print(tostring(select(2, pcall(a.fail, a))):match "^[^\n]*")
  l:close()
  accepting:await()
  print((b:add(5, 6)))
end)
while pl.domain.count() > 1 do pl.sleep(0.01) end
print(pl.domain.count())

-- A domain that accepts nothing for a while does not hold up connections that others have room for.
pl.scope(function(s)
  local l = listen()
  s:daemon(function()
    -- One connection at a time for each domain.
    l:serve(function(c)
      local line = c:read_line()
      c:write(pl.domain.self():name(), "\n")
      if line == "hold" then c:read_line() end
    end, { domains = 2, max = 2 })
  end)
  local held = {}
  for n = 1, 2 do
    held[n] = net.connect(l:endpoint())
    held[n]:write "hold\n"
    held[held[n]:read_line()] = held[n]
  end
  -- Both have as many in their queues as there is room for, and some wait outside.
  local answers = pl.channel.new()
  for _ = 1, 48 do
    s:spawn(function()
      local c <close> = net.connect(l:endpoint())
      c:write "go\n"
      answers:send(c:read_line())
    end)
  end
  local function answered(count)
    local by = {}
    for _ = 1, count do
      local name = answers:recv_timeout(60)
      if not name then return "somebody waits for a domain that is busy" end
      by[name] = (by[name] or 0) + 1
    end
    return by
  end
  pl.sleep(0.05)
  held["serve 2"]:close()
  local by = answered(32)
  print(type(by) == "table" and by["serve 1"] == nil and by["serve 2"] or by)
  held["serve 1"]:close()
  local rest = answered(16)
  print(type(rest) == "table" and (rest["serve 1"] or 0) + (rest["serve 2"] or 0) or rest)
end)
