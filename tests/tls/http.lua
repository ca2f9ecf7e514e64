-- https: client and server, pools that keep apart who trusts whom, redirects, certificates of clients, bodies that are cut off.
local http = require "perilune.http"
local net = require "perilune.net"
local pl = require "perilune"

local srv = http.server()
local connections = {}
srv:get("/", function(req) return "hello" end)
srv:get("/connection", function(req)
  local peer = req:peer_endpoint()
  connections[peer] = connections[peer] or 0
  connections[peer] = connections[peer] + 1
  return tostring(connections[peer])
end)
srv:get("/big", function() return ("x"):rep(3000000) end)
srv:post("/echo", function(req) return req:text() end)

local identity = { cert = "server.pem", key = "server.key" }
pl.scope(function(s)
  local l = assert(srv:listen("127.0.0.1:0", { tls = identity }))
  local base = "https://" .. l:endpoint()
  local ca = { ca = "ca.pem" }
  local res = assert(http.get(base .. "/", { tls = ca }))
  print(res.status, res.body)
  print(#http.get(base .. "/big", { tls = ca }).body)
  print(#http.post(base .. "/echo", { tls = ca, body = ("y"):rep(500000) }).body)

  -- connections are kept, for those with the same options
  local pool = http.pool()
  local function ask(tls) return assert(http.get(base .. "/connection", { tls = tls, pool = pool })).body end
  print(ask { ca = "ca.pem" }, ask { ca = "ca.pem" }, ask { ca = { "ca.pem" } }, ask { ca = "ca.pem", name = "localhost" }, ask { insecure = true }, ask { insecure = true })
  print(select(2, http.get(base .. "/", { tls = { ca = "other_ca.pem" }, pool = pool })))
  print(select(2, http.get(base .. "/", { tls = { ca = "ca.pem", name = "a.example" }, pool = pool })))
  pool:close()

  -- http to an https server, and the other way round
  print(select(3, http.get("http://" .. l:endpoint() .. "/")) ~= nil)
  local plain = assert(srv:listen "127.0.0.1:0")
  print(select(2, http.get("https://" .. plain:endpoint() .. "/", { tls = ca })))

  -- the system's authorities; mistakes
  print(http.get("https://localhost:" .. select(2, l:address()) .. "/").body)
  print(pcall(http.get, base .. "/", { tls = { cacert = "ca.pem" } }))

  -- a redirect: the other host is verified for itself
  local other = http.server()
  other:get("/", function(req) return "other" end)
  local ol = assert(other:listen("127.0.0.1:0", { tls = identity }))
  local first = http.server()
  first:get("/", function() return http.redirect("https://" .. ol:endpoint() .. "/") end)
  local fl = assert(first:listen("127.0.0.1:0", { tls = { cert = "a.pem", key = "a.key" } }))
  print(http.get("https://" .. fl:endpoint() .. "/", { tls = { ca = "ca.pem", name = "a.example" } }).body)

  -- clients that have to say who they are
  local strict = http.server()
  strict:get("/", function(req) return "welcome" end)
  local sl = assert(strict:listen("127.0.0.1:0", { tls = { cert = "server.pem", key = "server.key", client_ca = "ca.pem" } }))
  print(http.get("https://" .. sl:endpoint() .. "/", { tls = { ca = "ca.pem", cert = "alice.pem", key = "alice.key" } }).body)
  print(select(2, http.get("https://" .. sl:endpoint() .. "/", { tls = ca })))

  -- a body without a length that is cut off is not taken for whole
  local raw = net.listen("127.0.0.1:0")
  s:daemon(function()
    for c in raw do
      if c:start_tls(identity) and c:read_until "\r\n\r\n" then
        c:write("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhalf of it")
        c:flush()
        pl.sleep(0.02)
        c:abort()
      end
    end
  end)
  local res, message, code = http.get("https://" .. raw:endpoint() .. "/", { tls = ca })
  print(res, code == "reset" or code == "tls")
end)
