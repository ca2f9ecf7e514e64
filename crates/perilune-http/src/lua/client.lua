-- The client. A request takes a connection from a pool or opens one, sends its head and body, and reads a head; the body is read then, or by the caller (stream = true).
-- The connection goes back to the pool when the body has been read to its end and the server keeps it; otherwise it is closed, also when the caller is
-- cancelled on the way.
--
-- A server may close a kept connection at the moment when the next request is sent on it. Such a request is sent once more, on a new connection, if nothing has come
-- back, if its method is idempotent, and if its body can be sent again.
local core = ...
local pl = require "perilune"
local net = require "perilune.net"
local error, ipairs, next, pairs, pcall, setmetatable, tostring, type = error, ipairs, next, pairs, pcall, setmetatable, tostring, type
local now, none_behind = pl.now, core.none_behind
local send_request, read_response, is_fresh, parse_url = core.send_request, core.read_response, core.is_fresh, core.parse_url

-- Modes of send_request.
local CLOSE, PIECES, UPGRADE = 2, 8, 16
local IDEMPOTENT = { GET = true, HEAD = true, PUT = true, DELETE = true, OPTIONS = true, TRACE = true }
local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }
-- What a redirect to another host does not take along.
local SECRETS = { "authorization", "cookie", "proxy-authorization" }
-- So much of a body that nobody wants is read so that the connection can be used again.
local DRAINED = 65536
-- Heads of responses, and how many of 1xx are skipped.
local HEADER_BYTES, HEADER_FIELDS, INFORMATIONAL = 65536, 200, 16

local KINDS = {
  url = "string", method = "string", headers = "table", body = "any", json = "any", form = "table", timeout = "seconds", pool = "any", redirects = "any",
  stream = "boolean", limit = "count", gzip = "boolean", tls = "table",
}
local DEFAULTS = { method = "GET", timeout = 30, redirects = 10, limit = 64 << 20, gzip = true, stream = false }

-- Pools ----------------------------------------------------------------------------------------------------------------------------

local Pool = { __name = "http.pool" }
Pool.__index = Pool

-- Connections that wait for their next request, by origin; each list has the oldest first.
function core.pool(options, ...)
  none_behind(1, "pool", ...)
  options = core.options(options, { idle = "seconds", per_host = "count", total = "count" }, { idle = 30, per_host = 8, total = 64 }, 2)
  return setmetatable({ _options = options, _kept = {}, _count = 0 }, Pool)
end

local function drop(pool, key, at)
  local list = pool._kept[key]
  local kept = table.remove(list, at)
  pool._count = pool._count - 1
  if #list == 0 then pool._kept[key] = nil end
  return kept.c
end

function Pool:_take(key)
  local oldest = self._options.idle and now() - self._options.idle
  local list = self._kept[key]
  while list and list[1] do
    local kept = list[#list]
    local c = drop(self, key, #list)
    if (not oldest or kept.since >= oldest) and is_fresh(c) then return c end
    c:abort()
  end
  return nil
end

function Pool:_put(key, c)
  if self._closed or not is_fresh(c) then
    c:abort()
    return
  end
  local list = self._kept[key]
  if list and #list >= self._options.per_host then
    drop(self, key, 1):abort()
    list = self._kept[key]
  elseif self._count >= self._options.total then
    local oldest, whose
    for other, l in next, self._kept do
      if not oldest or l[1].since < oldest then oldest, whose = l[1].since, other end
    end
    drop(self, whose, 1):abort()
    list = self._kept[key]
  end
  if not list then
    list = {}
    self._kept[key] = list
  end
  list[#list + 1] = { c = c, since = now() }
  self._count = self._count + 1
end

-- Closes what is in it; connections that come back later are closed, too.
function Pool:close()
  self._closed = true
  for _, list in next, self._kept do
    for _, kept in ipairs(list) do kept.c:abort() end
  end
  self._kept, self._count = {}, 0
end

function Pool:count() return self._count end

Pool.__close = Pool.close

local default_pool = core.pool()

-- Responses ------------------------------------------------------------------------------------------------------------------------

local Response = { __name = "http.response" }
Response.__index = Response
for name, f in pairs(core.reading) do Response[name] = f end

-- Ends a response whose body is not wanted any more.
function Response:close(surplus)
  none_behind(0, "close", surplus)
  local done = self._done
  if done then
    self._done = nil
    done(self, false)
  end
  self._fault = self._fault or { "closed", "closed" }
end

-- The error that a scope is left with comes as an argument.
function Response:__close() self:close() end

function Response:_seconds()
  local deadline = self._deadline
  if deadline then
    local left = deadline - now()
    return left > 0 and left or 0
  end
  return self._span or nil
end

-- Requests -------------------------------------------------------------------------------------------------------------------------

local function parse(text, base)
  local scheme, host, port, authority, target, whole, path, query = parse_url(text, base)
  if not scheme then return nil, host end
  return { scheme = scheme, host = host, port = port, authority = authority, target = target, text = whole, path = path, query = query }
end

-- The one place where a connection is opened.
local function open(url, seconds, tls)
  local options = { host = url.host, port = url.port, timeout = seconds, tls = url.scheme == "https" and (tls or true) or nil }
  local ok, c, message, code = pcall(net.connect, options)
  -- A mistake in the options for TLS. Where it was found is no place of the program's.
  if not ok then error(type(c) == "string" and c:gsub("^perilune:%d+: ", "") or c, 0) end
  return c, message, code
end

-- What connections in a pool are told apart by: who trusts everybody must not leave one for somebody who does not.
local function origin(o, url)
  local parts = { url.scheme, "://", url.authority }
  if url.scheme == "https" and o.tls then
    local names = {}
    for name in next, o.tls do names[#names + 1] = tostring(name) end
    table.sort(names)
    for _, name in ipairs(names) do
      local value = o.tls[name]
      if type(value) ~= "table" then value = { value } end
      parts[#parts + 1] = ("\n%s %d"):format(name, #value)
      for _, part in ipairs(value) do
        part = tostring(part)
        parts[#parts + 1] = (" %d:%s"):format(#part, part)
      end
    end
  end
  return table.concat(parts)
end

-- What holds a connection while the caller may be cancelled.
local Held = {
  __close = function(held)
    local c = held.c
    if c then
      held.c = nil
      c:abort()
    end
  end,
}

local function remaining(deadline)
  if not deadline then return nil end
  local left = deadline - now()
  return left > 0 and left or 0
end

-- Sends a request on a connection and reads the head of its response: status, reason, headers, left, wishes, all_sent; nil, message, code, silent: whether nothing
-- at all has come.
local function exchange(c, o, url, deadline)
  local body, headers = o.body, o.headers
  local in_pieces = type(body) == "function"
  local mode = (in_pieces and PIECES or 0) | (o.upgrade and UPGRADE or 0) | (not o.pool and not o.upgrade and CLOSE or 0)
  c:set { write_timeout = remaining(deadline) or false }
  local closes, length, code = send_request(c, o.method, url.target, url.authority, headers, not in_pieces and body or nil, mode)
  if closes == nil then return nil, length, code, true end
  local all_sent = true
  if in_pieces then all_sent = core.send_pieces(c, body, nil, length, not length) end
  for _ = 1, INFORMATIONAL do
    local status, reason, fields, left, wishes = read_response(c, remaining(deadline), HEADER_BYTES, HEADER_FIELDS, o.method)
    if not status then
      local silent = fields ~= "timeout" and fields ~= "protocol" and c:info().received == o.received
      if fields == "closed" then reason = "the server has closed the connection" end
      if fields == "protocol" then reason = "the response of " .. url.authority .. " is no HTTP: " .. reason end
      return nil, reason, fields, silent
    end
    if status == 101 and o.upgrade then return status, reason, fields, 0, 0, all_sent end
    if status == 101 then return nil, "the server has changed the protocol, unasked", "protocol" end
    if status >= 200 then
      if closes then wishes = wishes & ~1 end
      return status, reason, fields, left, wishes, all_sent
    end
  end
  return nil, "the server sends one informational response after the other", "protocol"
end

-- A connection for an origin, and whether it has been used before.
local function connect(o, url, deadline)
  if o.pool then
    local c = o.pool:_take(origin(o, url))
    if c then return c, true end
  end
  local c, message, code = open(url, remaining(deadline), o.tls)
  return c, message or false, code
end

-- One request to one address: a response whose body has not been read.
local function once(o, url, deadline, held)
  local may_repeat = IDEMPOTENT[o.method] and type(o.body) ~= "function"
  while true do
    local c, used, code = connect(o, url, deadline)
    if not c then return nil, used, code end
    held.c = c
    o.received = used and c:info().received or 0
    local status, reason, headers, left, wishes, all_sent = exchange(c, o, url, deadline)
    if status then
      local key, pool = origin(o, url), o.pool
      local keeps = wishes & 1 ~= 0 and pool and left ~= -4 and all_sent
      local res = setmetatable({
        status = status, reason = reason, headers = headers, url = url.text, _c = c, _left = left, _limit = o.limit, _deadline = deadline,
        _done = function(res, ok)
          res._c = nil
          held.c = nil
          if ok and keeps then pool:_put(key, c) else c:abort() end
        end,
      }, Response)
      local coding = headers["content-encoding"]
      if o.decodes and left ~= 0 and coding and coding:lower():find "^x?%-?gzip$" then
        res._inflater = core.inflater()
        headers["content-encoding"], headers["content-length"] = nil, nil
      end
      return res
    end
    held.c = nil
    c:abort()
    -- left: nothing has come back
    if not (used == true and left and may_repeat) then return nil, reason, headers end
    -- All that wait in the pool are as old as this one: the next attempt opens its own.
    if o.pool then
      local fresh = setmetatable({}, { __index = o })
      local own = setmetatable({ _take = function() end, _put = function(_, k, kept) o.pool:_put(k, kept) end }, Pool)
      fresh.pool = own
      return once(fresh, url, deadline, held)
    end
  end
end

-- Where a response leads, if it is a redirect that is to be followed: an address; nil: it is the answer; false, message.
local function next_url(o, url, res, count)
  local location = res.headers.location
  if not REDIRECTS[res.status] or not location or count == 0 and o.redirects == 0 then return nil end
  local target, problem = parse(location, url.text)
  if not target then return false, "a redirect of " .. url.authority .. " leads nowhere: " .. problem end
  if count >= o.redirects then return false, "more than " .. o.redirects .. " redirects" end
  if url.scheme == "https" and target.scheme == "http" then
    return false, "a redirect of " .. url.authority .. " leads from https to http"
  end
  local keeps_method = res.status == 307 or res.status == 308
  if not keeps_method and o.method ~= "HEAD" and (res.status == 303 or o.method == "POST") then
    o.method = "GET"
    o.body = nil
    o.headers["content-type"], o.headers["content-length"] = nil, nil
  elseif type(o.body) == "function" then
    return false, "a redirect asks for the body again, which has gone"
  end
  if target.scheme ~= url.scheme or target.authority ~= url.authority then
    for _, name in ipairs(SECRETS) do o.headers[name] = nil end
    o.headers.host = nil
    -- Whom the program means, and who it is there, is meant for the first host.
    local tls = o.tls
    if tls and (tls.name or tls.cert) then
      o.tls = {}
      for name, value in next, tls do
        if name ~= "name" and name ~= "cert" and name ~= "key" then o.tls[name] = value end
      end
    end
  end
  return target
end

local function prepare(given, level)
  local o = core.options(given, KINDS, DEFAULTS, level + 1)
  if not o.url then error("option 'url' is missing", level + 1) end
  local url, problem = parse(o.url)
  if not url then error("'" .. o.url .. "' is no address of a page: " .. problem, level + 1) end
  local headers = {}
  for name, value in pairs(o.headers or {}) do
    if type(name) ~= "string" then error("option 'headers': a name must be a string, not a " .. type(name), level + 1) end
    headers[name:lower()] = value
  end
  o.headers = headers
  if o.redirects == false then
    o.redirects = 0
  elseif math.type(o.redirects) ~= "integer" or o.redirects < 0 then
    error("option 'redirects' must be an integer, at least 0, or false", level + 1)
  end
  if o.pool == nil then
    o.pool = default_pool
  elseif o.pool ~= false and getmetatable(o.pool) ~= Pool then
    error("option 'pool' must be a pool (http.pool), or false", level + 1)
  end
  if o.json ~= nil or o.form then
    if o.body ~= nil or o.json ~= nil and o.form then error("of 'body', 'json' and 'form' there can be one", level + 1) end
    o.body = o.form and core.encode_query(o.form) or require("perilune.json").encode(o.json)
    headers["content-type"] = headers["content-type"] or (o.form and "application/x-www-form-urlencoded" or "application/json")
  end
  local kind = type(o.body)
  if o.body ~= nil and kind ~= "string" and kind ~= "function" then
    error("option 'body' must be a string, or a function that returns pieces, not a " .. kind, level + 1)
  end
  if not headers["user-agent"] then headers["user-agent"] = "perilune" end
  if not headers.accept then headers.accept = "*/*" end
  o.decodes = o.gzip and not headers["accept-encoding"]
  if o.decodes then headers["accept-encoding"] = "gzip" end
  return o, url
end

local function perform(o, url)
  local deadline = o.timeout and now() + o.timeout
  local held <close> = setmetatable({}, Held)
  local count = 0
  while true do
    local res, message, code = once(o, url, deadline, held)
    if not res then return nil, message, code end
    local target, problem = next_url(o, url, res, count)
    if target == nil then
      if res._left == 0 and not o.upgrade then
        local done = res._done
        res._done = nil
        done(res, true)
      end
      if o.stream or o.upgrade then
        -- The caller's from now on.
        held.c = nil
        res._deadline, res._span = nil, o.timeout
        return res
      end
      res.body, message, code = core.read_text(res)
      if not res.body then return nil, message, code end
      return res
    end
    -- What the redirect says besides is not wanted.
    res._limit, res._inflater = DRAINED, nil
    core.read_text(res)
    res:close()
    if not target then return nil, problem, "redirects" end
    url = target
    count = count + 1
  end
end

function core.request(options, ...)
  none_behind(1, "request", ...)
  if type(options) ~= "table" then error("bad argument #1 to 'request' (table expected, got " .. type(options) .. ")", 2) end
  return perform(prepare(options, 2))
end

for name, method in pairs { get = "GET", post = "POST", put = "PUT", delete = "DELETE", patch = "PATCH", head = "HEAD" } do
  core[name] = function(url, options, ...)
    none_behind(2, name, ...)
    if type(url) ~= "string" then error("bad argument #1 to '" .. name .. "' (string expected, got " .. type(url) .. ")", 2) end
    if options ~= nil and type(options) ~= "table" then error("bad argument #2 to '" .. name .. "' (table expected, got " .. type(options) .. ")", 2) end
    local o = { url = url, method = method }
    for k, v in pairs(options or {}) do o[k] = v end
    return perform(prepare(o, 2))
  end
end

-- Asks for another protocol: the connection, and the response; nil, message, code, and the response if there is one. What the server has sent behind the head is read
-- from the connection first.
function core.upgrade(options, ...)
  none_behind(1, "upgrade", ...)
  if type(options) ~= "table" then error("bad argument #1 to 'upgrade' (table expected, got " .. type(options) .. ")", 2) end
  local o, url = prepare(options, 2)
  if not o.headers.upgrade then error("option 'headers' lacks 'upgrade', the name of the protocol", 2) end
  if o.body ~= nil then error("a request for another protocol has no body", 2) end
  o.pool, o.redirects, o.upgrade = false, 0, true
  local res, message, code = perform(o, url)
  if not res then return nil, message, code end
  if res.status ~= 101 then
    res._deadline = o.timeout and now() + o.timeout
    res.body = core.read_text(res)
    res:close()
    return nil, url.authority .. " has not changed the protocol, but answered " .. res.status .. " " .. res.reason, "status", res
  end
  local c = res._c
  res._c, res._done = nil, nil
  c:set { read_timeout = false, write_timeout = false }
  return c, res
end

-- The parts of an address, also of one that stands on the page 'base'; nil, message.
function core.url(text, base, ...)
  none_behind(2, "url", ...)
  if type(text) ~= "string" then error("bad argument #1 to 'url' (string expected, got " .. type(text) .. ")", 2) end
  return parse(text, base)
end

core.module = {
  server = core.server, json = core.json, events = core.events, redirect = core.redirect, gzip = core.gzip_middleware, reason = core.reason,
  request = core.request, get = core.get, post = core.post, put = core.put, delete = core.delete, patch = core.patch, head = core.head,
  upgrade = core.upgrade, pool = core.pool,
  url = core.url, escape = core.escape, unescape = core.unescape, encode_query = core.encode_query, decode_query = core.decode_query,
}
