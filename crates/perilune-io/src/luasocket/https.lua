-- `require "ssl.https"`: socket.http with TLS below it. It needs LuaSocket's own Lua files, as programs that use it do.
local module = ...
local error, pairs, pcall, require, setmetatable, type = error, pairs, pcall, require, setmetatable, type

local https = { PORT = 443, TIMEOUT = 60, _VERSION = "1.3.2" }

-- Fields of a request that are parameters of the session.
local PARAMS = { "protocol", "verify", "key", "certificate", "certificates", "cafile", "capath", "alpn", "options", "password" }

-- What socket.http makes its sockets with: one that begins its session when it has connected.
function https.tcp(params)
  local given = { mode = "client", protocol = "any" }
  for _, name in ipairs(PARAMS) do
    if params and params[name] ~= nil then given[name] = params[name] end
  end
  return function()
    local ssl, socket = require "ssl", require "socket.core"
    local sock, problem = socket.tcp()
    if not sock then return nil, problem end
    local inner, limit = sock, https.TIMEOUT
    local self = {}
    function self:settimeout(...)
      limit = ...
      return inner:settimeout(...)
    end
    function self:connect(host, port)
      sock:settimeout(limit)
      local ok, message = sock:connect(host, port)
      if not ok then return nil, message end
      inner, message = ssl.wrap(sock, given)
      if not inner then
        inner = sock
        return nil, message
      end
      inner:settimeout(limit)
      inner:sni(host)
      ok, message = inner:dohandshake()
      if not ok then return nil, message end
      return 1
    end
    -- Everything else is the session's.
    return setmetatable(self, { __index = function(_, name)
      local method = inner[name]
      if type(method) ~= "function" then return method end
      return function(_, ...) return method(inner, ...) end
    end })
  end
end

-- https.request(url [, body]), https.request{url =, ...}: as socket.http's, with the session's parameters among the fields. Redirects are not followed unless 'redirect' says so, and then not to http.
function https.request(wish, body)
  local http, ltn12, url = require "socket.http", require "ltn12", require "socket.url"
  local simple, result = type(wish) == "string", {}
  local request = {}
  if simple then
    request.url, request.sink = wish, ltn12.sink.table(result)
    if body then
      request.method, request.source = "POST", ltn12.source.string(body)
      request.headers = { ["content-length"] = #body, ["content-type"] = "application/x-www-form-urlencoded" }
    end
  elseif type(wish) == "table" then
    for name, value in pairs(wish) do request[name] = value end
  else
    error("bad argument #1 to 'request' (string or table expected, got " .. type(wish) .. ")", 2)
  end
  if request.create then return nil, "create function not permitted" end
  if http.PROXY or request.proxy then return nil, "proxy not supported" end
  if request.url then
    local parsed = url.parse(request.url, { port = tostring(https.PORT), scheme = "https" })
    if parsed.scheme ~= "https" then return nil, "the scheme is not https: " .. parsed.scheme end
    request.url = url.build(parsed)
  else
    request.port = request.port or https.PORT
  end
  if request.redirect then return nil, "redirect not supported" end
  request.redirect = false
  request.create = https.tcp(request)
  local ok, code, headers, status = http.request(request)
  if ok and simple then return table.concat(result), code, headers, status end
  return ok, code, headers, status
end

module.module = https
