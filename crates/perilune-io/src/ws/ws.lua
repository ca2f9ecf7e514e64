-- The handshake of WebSocket, at both ends, on requests of perilune.http for another protocol. The essay is in mod.rs.
local ws, natives = ...
local error, ipairs, next, pcall, require, type = error, ipairs, next, pcall, require, type
local concat, format = table.concat, string.format

local function check_options(options, n, name, known)
  if options == nil then return {} end
  if type(options) ~= "table" then
    error(format("bad argument #%d to '%s' (table expected, got %s)", n, name, type(options)), 3)
  end
  for key in next, options do
    if not known[key] then error(format("bad argument #%d to '%s' (unknown option '%s'; there are %s)", n, name, key, known.all), 3) end
  end
  return options
end

-- What a function has no argument for is without effect: it is refused.
local function none_behind(last, name, surplus)
  if surplus ~= nil then error(format("bad argument #%d to '%s' (no further argument expected, got %s)", last + 1, name, type(surplus)), 3) end
end

-- The words of a header field that is a list.
local function words(field)
  local found = {}
  for word in (field or ""):gmatch "[^%s,]+" do found[word] = true end
  return found
end

-- Clients ------------------------------------------------------------------------------------------

local connecting = { headers = true, protocols = true, timeout = true, limit = true, read_timeout = true, tls = true }
connecting.all = "'headers', 'protocols', 'timeout', 'limit', 'read_timeout', 'tls'"

-- ws.connect(url [, options])
function ws.connect(url, options, ...)
  none_behind(2, "connect", ...)
  if type(url) ~= "string" then error(format("bad argument #1 to 'connect' (string expected, got %s)", type(url)), 2) end
  local scheme, rest = url:match "^(%a+)(://.*)$"
  scheme = scheme and ({ ws = "http", wss = "https" })[scheme:lower()]
  if not scheme then error(format("bad argument #1 to 'connect' ('%s' is no address: expected 'ws://host:port/path')", url), 2) end
  options = check_options(options, 2, "connect", connecting)
  local key = natives.key()
  local headers = {}
  for name, value in next, options.headers or {} do headers[name] = value end
  headers["upgrade"] = "websocket"
  headers["sec-websocket-version"] = "13"
  headers["sec-websocket-key"] = key
  if options.protocols then headers["sec-websocket-protocol"] = concat(options.protocols, ", ") end
  local request = { url = scheme .. rest, headers = headers, timeout = options.timeout, tls = options.tls }
  -- a mistake in the address is one of the caller
  local ok, connection, response, code = pcall(require "perilune.http".upgrade, request)
  if not ok then error(connection, 2) end
  if not connection then return nil, response, code end
  local answer = response.headers
  local protocol, wrong = answer["sec-websocket-protocol"], nil
  if (answer["upgrade"] or ""):lower() ~= "websocket" then
    wrong = "the server has changed to another protocol"
  elseif answer["sec-websocket-accept"] ~= natives.accept(key) then
    wrong = "the server's answer does not belong to this request"
  elseif answer["sec-websocket-extensions"] then
    wrong = "the server uses an extension that was not asked for"
  elseif protocol and not words(headers["sec-websocket-protocol"])[protocol] then
    wrong = "the server uses a protocol that was not asked for"
  end
  if wrong then
    connection:abort()
    return nil, wrong, "protocol"
  end
  return natives.wrap(connection, "client", { limit = options.limit, read_timeout = options.read_timeout }), protocol
end

-- Servers ------------------------------------------------------------------------------------------

local accepting = { protocols = true, origins = true, limit = true, read_timeout = true }
accepting.all = "'protocols', 'origins', 'limit', 'read_timeout'"

local function refusal(status, text, headers)
  headers = headers or {}
  headers["content-type"] = "text/plain; charset=utf-8"
  return nil, { status = status, headers = headers, body = text .. "\n" }
end

-- ws.accept(request [, options]): a request of perilune.http becomes a connection; or nil and the response that refuses it.
function ws.accept(request, options, ...)
  none_behind(2, "accept", ...)
  if type(request) ~= "table" or not request.headers then
    error(format("bad argument #1 to 'accept' (request expected, got %s)", type(request)), 2)
  end
  options = check_options(options, 2, "accept", accepting)
  local fields = request.headers
  if request.method ~= "GET" or not request.upgrades or not words((fields["upgrade"] or ""):lower())["websocket"] then
    return refusal(426, "this is for WebSocket", { upgrade = "websocket" })
  end
  if fields["sec-websocket-version"] ~= "13" then
    return refusal(426, "this is for version 13 of WebSocket", { ["sec-websocket-version"] = "13" })
  end
  local key = fields["sec-websocket-key"]
  if not key or #key ~= 24 or not key:find "^[%w+/]+==$" then return refusal(400, "the key is none") end
  local origins, origin = options.origins, fields["origin"]
  if origins and origin then
    local known = false
    for _, one in ipairs(origins) do known = known or one == origin end
    if not known then return refusal(403, "not from this origin") end
  end
  local protocol
  if options.protocols then
    local wished = words(fields["sec-websocket-protocol"])
    for _, one in ipairs(options.protocols) do
      if wished[one] then
        protocol = one
        break
      end
    end
  end
  local connection, message, code = request:upgrade {
    upgrade = "websocket",
    ["sec-websocket-accept"] = natives.accept(key),
    ["sec-websocket-protocol"] = protocol,
  }
  if not connection then return nil, message, code end
  return natives.wrap(connection, "server", { limit = options.limit, read_timeout = options.read_timeout }), protocol
end

-- ws.handler(f [, options]): a handler for perilune.http that calls f(connection, request, protocol).
function ws.handler(f, options, ...)
  none_behind(2, "handler", ...)
  if type(f) ~= "function" then error(format("bad argument #1 to 'handler' (function expected, got %s)", type(f)), 2) end
  check_options(options, 2, "handler", accepting)
  return function(request)
    local connection, protocol = ws.accept(request, options)
    if not connection then return type(protocol) == "table" and protocol or 500 end
    local closed <close> = connection
    f(connection, request, protocol)
  end
end
