-- A reverse proxy: passes requests on to several servers, with limits of time and checks of their health.
--
--   perilune main.lua                                     a demonstration, on servers of its own
--   perilune main.lua LISTEN HTTP://HOST:PORT...          a proxy until it is stopped, as in: main.lua *:8080 http://10.0.0.1:80 http://10.0.0.2:80
--
-- Requests go to the healthy servers in turn. A fiber for each server asks for its health path now and then; a server that fails
-- DOWN checks in a row gets no requests until it has passed one. A request that has not reached a server, because nobody accepts the
-- connection, goes to the next one; one that may have been seen does not. Bodies are passed on in pieces, both ways, so their size does not matter.

local pl = require "perilune"
local http = require "perilune.http"

local DOWN <const> = 2
-- What is meant for one connection, and not for the next one.
local HOP <const> = {
  "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

local function without_hops(headers)
  local kept = {}
  for name, value in pairs(headers) do kept[name] = value end
  for name in (tostring(headers.connection or "")):gmatch "[^,%s]+" do kept[name:lower()] = nil end
  for _, name in ipairs(HOP) do kept[name] = nil end
  return kept
end

-- The next piece of a response. A server that breaks off breaks the client's connection off, too, so that nobody takes half a page for a whole one.
local function piece_of(res)
  local piece, message = res:read()
  if message then error("the server has broken off: " .. message, 0) end
  return piece
end

-- A proxy for these addresses: a handler of requests, and a function that checks health until it is cancelled.
local function proxy(urls, options)
  local servers, turn = {}, 0
  for n, url in ipairs(urls) do servers[n] = { url = url, healthy = true, failed = 0 } end
  local pool = http.pool { per_host = 64, total = 256 }

  local function check(server)
    while true do
      local res = http.get(server.url .. options.health, { timeout = options.check_timeout, pool = pool, redirects = false })
      local ok = res ~= nil and res.status == 200
      server.failed = ok and 0 or server.failed + 1
      local healthy = server.failed < DOWN
      if healthy ~= server.healthy then
        server.healthy = healthy
        options.log(server.url, healthy and "is back" or "is down")
      end
      pl.sleep(options.every)
    end
  end

  -- The healthy servers, beginning with the one whose turn it is.
  local function candidates()
    local found = {}
    turn = turn + 1
    for n = 0, #servers - 1 do
      local server = servers[(turn + n - 1) % #servers + 1]
      if server.healthy then found[#found + 1] = server end
    end
    return found
  end

  local function handle(req)
    local headers = without_hops(req.headers)
    local before = headers["x-forwarded-for"]
    local client = req:peer()
    headers["x-forwarded-for"] = before and before .. ", " .. client or client
    headers["x-forwarded-host"], headers.host = req.host, nil
    -- The body begins to flow when a server takes it.
    local has_body = headers["content-length"] or req.headers["transfer-encoding"]
    local body = has_body and function() return req:read() end or nil
    local res, code
    for _, server in ipairs(candidates()) do
      res, _, code = http.request {
        url = server.url .. req.path .. (req.query and "?" .. req.query or ""), method = req.method, headers = headers, body = body,
        timeout = options.timeout, pool = pool, redirects = false, stream = true, gzip = false,
      }
      if res or code ~= "refused" then break end
    end
    if not res then return code == "timeout" and 504 or code and 502 or 503 end
    local answer = without_hops(res.headers)
    if req.method == "HEAD" or res.status == 204 or res.status == 304 then return { status = res.status, headers = answer } end
    return { status = res.status, headers = answer, body = function() return piece_of(res) end }
  end

  return handle, function()
    pl.each(servers, check)
  end
end

local function serve(address, urls)
  local handle, check = proxy(urls, {
    timeout = 30, health = "/health", every = 5, check_timeout = 2,
    log = function(...) print(os.date "%H:%M:%S", ...) end,
  })
  local srv = http.server { body_limit = 1 << 40 }
  srv:any("/*path", handle)
  pl.scope(function(s)
    s:daemon(check)
    local ended, message = srv:run(address, function(l) print("listening at " .. l:endpoint()) end)
    if not ended then
      io.stderr:write("proxy: ", message, "\n")
      os.exit(1)
    end
  end)
end

local function demonstrate()
  -- Servers that say who they are; the second one can be made sick.
  local sick, changes = false, pl.channel.new()
  local function server(name)
    local srv = http.server()
    srv:get("/health", function() return name == "two" and sick and 500 or 200 end)
    srv:get("/who", function() return name end)
    srv:get("/slow", function() pl.sleep(5) return "late" end)
    srv:post("/echo", function(req)
      return { body = name .. " got " .. #req:text() .. " bytes for " .. req.headers["x-forwarded-host"]:gsub(":%d+", "") }
    end, { body_limit = 1 << 24 })
    return assert(srv:listen "127.0.0.1:0")
  end
  pl.scope(function(s)
    local one, two, three = server "one", server "two", server "three"
    local handle, check = proxy({ "http://" .. one:endpoint(), "http://" .. two:endpoint(), "http://" .. three:endpoint() }, {
      timeout = 0.5, health = "/health", every = 0.05, check_timeout = 5, log = function(_, what) changes:send(what) end,
    })
    local function change() print("a server " .. changes:recv()) end
    s:daemon(check)
    local srv = http.server { body_limit = 1 << 24 }
    srv:any("/*path", handle)
    local base = "http://" .. assert(srv:listen "127.0.0.1:0"):endpoint()
    local function who(times)
      local counts = {}
      for _ = 1, times do
        local name = http.get(base .. "/who").body
        counts[name] = (counts[name] or 0) + 1
      end
      print(("one %d, two %d, three %d"):format(counts.one or 0, counts.two or 0, counts.three or 0))
    end
    who(9)
    sick = true
    change()
    who(10)
    sick = false
    change()
    who(9)
    -- A server that vanishes between two checks costs nobody a response.
    three:close(0)
    who(4)
    change()
    print("a slow page: " .. http.get(base .. "/slow").status)
    print((http.post(base .. "/echo", { body = ("x"):rep(1000000) }).body:gsub("^%w+", "somebody")))
    print("no such page: " .. http.get(base .. "/nowhere").status)
  end)
end

if arg[1] then
  local address, urls = arg[1], { table.unpack(arg, 2) }
  if not address:find ":" or #urls == 0 then
    io.stderr:write("usage: main.lua [HOST:PORT URL...], not: ", table.concat(arg, " "), "\n")
    os.exit(1)
  end
  for n, text in ipairs(urls) do
    local url, message = http.url(text)
    if not url then
      io.stderr:write("proxy: ", text, ": ", message, "\n")
      os.exit(1)
    end
    urls[n] = url.text:gsub("/$", "")
  end
  serve(address, urls)
else
  demonstrate()
end
