-- The server. A listener has a fiber that accepts; each connection has a fiber, which reads a head, finds the route, calls the handler and sends what it returns, until
-- the connection ends. All of them are daemons of the scope in which `listen` was called, so nothing outlives that.
--
-- How a connection waits, and for how long:
--   for the first byte of the first head, and from a head's first byte to its last   header_timeout, all of it
--   between turns                                                                    idle_timeout, up to a quarter more
--   for each piece of a body                                                         body_timeout, and body_rate on average after that
--   for a client that does not take its response                                     write_timeout
-- The wait between turns is the one that every request has, and a timer for it costs a tenth of a request. So it has none: the listener has a count of *ticks*, four of
-- which are the time; the connection notes the count before it waits, and the fiber that counts closes what has waited for five. That fiber runs only while there are connections.
local core = ...
local pl = require "perilune"
local net = require "perilune.net"
local error, getmetatable, ipairs, math, next, pairs, pcall = error, getmetatable, ipairs, math, next, pairs, pcall
local setmetatable, string, tostring, type, xpcall = setmetatable, string, tostring, type, xpcall
local now, sleep, timeout = pl.now, pl.sleep, pl.timeout
local read_request, send_response, read_body = core.read_request, core.send_response, core.read_body
local reason, has_unread = core.reason, core.has_unread
local does, none_behind = core.does, core.none_behind
local request_begins, request_handled, request_ends = core.request_begins, core.request_handled, core.request_ends

-- Modes of send_response.
local HEAD, CLOSE, OLD, PIECES, UPGRADE = 1, 2, 4, 8, 16
-- So much of a body that nobody has read is read and dropped so that the connection can be used again.
local DRAINED = 65536
-- So long, and so much, is read from a client that is to see why its connection is closed.
local LINGER, LINGERED = 1, 262144

local KINDS = {
  header_timeout = "seconds", idle_timeout = "seconds", body_timeout = "seconds", body_rate = "count", write_timeout = "seconds", timeout = "seconds",
  header_bytes = "count", header_fields = "count", body_limit = "count", max_connections = "count", on_error = "function",
}
local DEFAULTS = {
  header_timeout = 10, idle_timeout = 60, body_timeout = 30, body_rate = 256, write_timeout = 30, timeout = false,
  header_bytes = 16384, header_fields = 100, body_limit = 1 << 20, max_connections = core.room(),
}

-- Requests -------------------------------------------------------------------------------------------------------------------------

local Request = { __name = "http.request" }
Request.__index = Request
for name, f in pairs(core.reading) do Request[name] = f end

function Request:args(surplus)
  none_behind(0, "args", surplus)
  return (core.decode_query(self.query))
end

function Request:form(surplus)
  none_behind(0, "form", surplus)
  local text, message, code = self:text()
  if not text then return nil, message, code end
  return (core.decode_query(text))
end

function Request:peer(surplus)
  none_behind(0, "peer", surplus)
  return self._c:peer()
end

function Request:peer_endpoint(surplus)
  none_behind(0, "peer_endpoint", surplus)
  return self._c:peer_endpoint()
end

-- How long the next read of the body may take.
function Request:_seconds()
  local options = self._options
  local span = options.body_timeout
  if not span then return nil end
  local begun = self._begun
  if not begun then
    self._begun = now()
    return span
  end
  -- Who sends slower than the rate, after a first time to get going, has none left.
  local left = begun + span + (self._got or 0) / options.body_rate - now()
  return left < span and (left > 0 and left or 0) or span
end

-- The client waits for this before it sends the body.
local function continue(req)
  req._c:write "HTTP/1.1 100 Continue\r\n\r\n"
  req._c:flush()
end

-- The connection, which is the caller's from now on: the server neither reads nor writes nor closes it. What the client has sent already is read first.
function Request:take(surplus)
  none_behind(0, "take", surplus)
  if self._taken then error("the connection has been taken already", 2) end
  if self._left ~= 0 then error("the request has a body, which must be read before the connection is taken", 2) end
  self._taken = true
  -- What becomes of the connection is no request any more.
  local seen = self._seen
  if seen then
    self._seen = false
    request_ends(seen, 101)
  end
  local c = self._c
  c:set { read_timeout = false, write_timeout = false }
  return c
end

-- Sends the head of a '101 Switching Protocols' with these fields, and takes the connection.
function Request:upgrade(headers, surplus)
  none_behind(1, "upgrade", surplus)
  if type(headers) ~= "table" then error("bad argument #1 to 'upgrade' (table expected, got " .. type(headers) .. ")", 2) end
  if not self.upgrades then error("the client has not asked for another protocol: answer with status 426", 2) end
  local c = self._c
  local sent, message, code = send_response(c, 101, headers, nil, UPGRADE)
  if sent == nil then return nil, message, code end
  return self:take()
end

-- Responses ------------------------------------------------------------------------------------------------------------------------

local TEXT = "text/plain; charset=utf-8"

-- What a handler has returned, as a table with status and headers.
local function normal(res, req)
  local kind = type(res)
  if kind == "table" then
    if not res.status then res.status = 200 end
    if not res.headers then res.headers = {} end
    return res
  end
  if kind == "string" then return { status = 200, headers = { ["content-type"] = TEXT }, body = res } end
  if kind == "number" then return { status = res, headers = { ["content-type"] = TEXT }, body = reason(res) .. "\n" } end
  if res == nil and req._taken then return nil end
  error("the handler of " .. req.method .. " " .. req.path .. " has returned " .. (res == nil and "nothing" or "a " .. kind)
    .. " in place of a response", 0)
end

local function plain(status, text)
  return { status = status, headers = { ["content-type"] = TEXT }, body = text or reason(status) .. "\n" }
end

-- What a failed handler becomes: an error that is a table with a status is the response.
local function trace(err)
  if type(err) == "table" and type(err.status) == "number" then return err end
  return debug.traceback(type(err) == "string" and err or tostring(err), 2)
end

local function report(server, text, req)
  local on_error = server._options.on_error
  if on_error then
    local ok, problem = pcall(on_error, text, req)
    if ok then return end
    text = text .. "\nand on_error failed: " .. tostring(problem)
  end
  io.stderr:write("perilune.http: ", req and req.method .. " " .. req.path .. ": " or "", text, "\n")
end

-- A client that still sends would get a reset in place of the response: it gets time to read it.
local function linger(c)
  c:close_write()
  local ends, bytes = now() + LINGER, 0
  while bytes < LINGERED do
    local left = ends - now()
    local piece = left > 0 and core.read_within(c, left, 65536)
    if not piece then break end
    bytes = bytes + #piece
  end
  c:abort()
end

local function refuse(c, status, text)
  if send_response(c, status, { ["content-type"] = TEXT }, text .. "\n", CLOSE) ~= nil then linger(c) end
end

-- Statuses of what was wrong with a body, by codes.
local FAULTS = { limit = 413, timeout = 408, protocol = 400, closed = 400, reset = 400 }

-- The response of a request: what the route's handler returns, or what its failure becomes.
local function respond(server, req, route)
  local options = server._options
  local span = route.timeout
  if span == nil then span = options.timeout end
  local ok, res
  if span then
    ok, res = timeout(span, function() return xpcall(server._chain, trace, req) end)
    if ok == nil then
      if req._taken then return nil end
      report(server, "the handler has taken longer than " .. span .. " s", req)
      return plain(503)
    end
  else
    ok, res = xpcall(server._chain, trace, req)
  end
  if ok then return res end
  if type(res) == "table" then
    ok, res = pcall(normal, res, req)
    if ok then return res end
  end
  local fault = req._fault
  if fault then return plain(FAULTS[fault[2]] or 400, fault[1] .. "\n") end
  report(server, res, req)
  return plain(500)
end

-- Sends it. True: the connection can go on.
local function send(server, state, req, res, closing)
  local c = state.c
  local mode = req._keep and not closing and 0 or CLOSE
  if req._minor == 0 then mode = mode | OLD end
  local is_head = req.method == "HEAD"
  if is_head then mode = mode | HEAD end
  local left = req._left
  -- The rest of a body that may never come, or is long, is not waited for.
  -- Of one that is too long the same comes of it whether its end has come already or not.
  local too_long = req._fault and req._fault[2] == "limit"
  if too_long or left ~= 0 and (left > DRAINED or left < 0 or req._fault or req._first) then mode = mode | CLOSE end
  local body, stream = res.body, res.stream
  local in_pieces = stream or type(body) == "function"
  if in_pieces then mode = mode | PIECES end
  local closes, length = send_response(c, res.status, res.headers, not in_pieces and body or nil, mode)
  if closes == nil then return false end
  if in_pieces and not is_head and res.status ~= 204 and res.status ~= 304 then
    local is_chunked = not length and req._minor == 1
    local ok, all = xpcall(core.send_pieces, trace, c, body, stream, length, is_chunked)
    if not ok then
      report(server, type(all) == "table" and tostring(all.status) or all, req)
      c:abort()
      return false
    end
    if not all then return false end
  end
  if closes then
    if too_long or req._left ~= 0 or has_unread(c) then linger(c) end
    return false
  end
  while req._left ~= 0 do
    if not read_body(req, DRAINED) then break end
  end
  return req._left == 0
end

local function not_found() return plain(404) end

local function other_method(methods)
  local names = {}
  for name in pairs(methods) do
    if name ~= "any" then names[#names + 1] = name end
  end
  if methods.GET and not methods.HEAD then names[#names + 1] = "HEAD" end
  if not methods.OPTIONS then names[#names + 1] = "OPTIONS" end
  table.sort(names)
  local allow = table.concat(names, ", ")
  return function(req)
    if req.method == "OPTIONS" then return { status = 204, headers = { allow = allow } } end
    return { status = 405, headers = { allow = allow, ["content-type"] = TEXT }, body = "Method Not Allowed\n" }
  end
end

local NOT_FOUND = { f = not_found, name = "(no route)" }
local BAD_PATH = { name = "(bad path)", f = function() return plain(400, "the path has a bad escape\n") end }

local function route_of(server, method, path)
  -- 'OPTIONS *' asks about the server, not about a path.
  if path == "*" then return { f = other_method(server._router.methods), name = "OPTIONS *" } end
  local methods, values = server._router:find(path)
  if not methods then return methods == nil and NOT_FOUND or BAD_PATH end
  local route = methods[method] or method == "HEAD" and methods.GET or methods.any
  if not route then return { f = other_method(methods), name = "(no such method)" } end
  local names = route.names
  if not values then return route end
  local params = {}
  for n = 1, #names do params[names[n]] = values[n] end
  return route, params
end

-- The end of a connection's fiber, however that comes.
local Guard = {
  __close = function(state)
    local l = state.listener
    l._connections[state] = nil
    l._active = l._active - 1
    l._permits:release()
    local req = state.req
    if req and req._seen then request_ends(req._seen, 0) end
    if not state.taken then
      -- What was sent goes on its way.
      local c <close> = state.c
    end
    if l._source then l._source:ended() end
  end,
}

-- All turns of a connection.
local function turns(server, l, state)
  local c, options = state.c, server._options
  local header_timeout = options.header_timeout or nil
  local header_bytes, header_fields = options.header_bytes, options.header_fields
  local wait = header_timeout
  while true do
    state.idle = true
    local method, path, headers, left, wishes, query, target, minor, host = read_request(c, wait, header_bytes, header_fields)
    state.idle, state.tick = false, false
    if method == true then
      method, path, headers, left, wishes, query, target, minor, host = read_request(c, header_timeout, header_bytes, header_fields, true)
      if method == nil and headers == "timeout" then return refuse(c, 408, "the head did not come in time") end
    end
    if not method then
      if method == false then refuse(c, headers, path) end
      return
    end
    local route, params = route_of(server, method, path)
    local req = setmetatable({
      method = method, path = path, query = query, headers = headers, params = params or {}, target = target or path, host = host or headers.host,
      upgrades = wishes & 4 ~= 0 or nil, _c = c, _left = left, _minor = minor, _keep = wishes & 1 ~= 0, _options = options, _route = route,
    }, Request)
    local limit = route.body_limit or options.body_limit
    if left ~= 0 then
      if left > limit then
        return refuse(c, 413, "the body is longer than " .. limit .. " bytes")
      end
      req._limit = limit
      if wishes & 2 ~= 0 then req._first = continue end
    end
    l._served = l._served + 1
    local seen = request_begins(c, route.name)
    if seen then
      -- However the fiber ends.
      req._seen = seen
      state.req = req
    end
    local res = respond(server, req, route)
    if seen and req._seen then request_handled(seen) end
    if req._taken then
      state.taken = true
      return
    end
    local ok, goes_on = pcall(send, server, state, req, res, l._closing or l._starved)
    if not ok then
      -- The response is none: nothing of it has gone.
      report(server, goes_on, req)
      goes_on = send(server, state, req, plain(500), l._closing)
    end
    if seen then
      req._seen = false
      request_ends(seen, ok and res.status or 500)
    end
    if not goes_on then return end
    -- Nobody waits for this one but the fiber that counts ticks.
    wait = nil
    state.tick = l._tick
  end
end

local function connection(server, l, c)
  does("http connection", c)
  local state <close> = setmetatable({ c = c, listener = l, idle = true, tick = false }, Guard)
  l._connections[state] = true
  l._active = l._active + 1
  c:set { write_timeout = server._options.write_timeout }
  local ok, problem = pcall(turns, server, l, state)
  if not ok then report(server, tostring(problem)) end
end

-- Closes a connection on which nothing is going on; who waits for its next head sees the end. False: a request has just come, which is answered first.
local function close_idle(state)
  if has_unread(state.c) then return false end
  state.idle = false
  local c <close> = state.c
  return true
end

-- Counts ticks, and closes what has been idle for too long, until there are no more connections.
local function count_ticks(l, span)
  does "http idle timeouts"
  repeat
    sleep(span / 4)
    l._tick = l._tick + 1
    local late = l._tick - 5
    local found = {}
    for state in next, l._connections do
      if state.tick and state.tick <= late then found[#found + 1] = state end
    end
    for _, state in ipairs(found) do close_idle(state) end
  until l._active == 0
  l._counting = false
end

-- The connection that was accepted may be served. If all places are taken, one on which nothing is going on has to go.
local function admit(l)
  if l._permits:try_acquire() then return end
  for state in next, l._connections do
    if state.idle and close_idle(state) then break end
  end
  -- Those that end a turn meanwhile close as well.
  l._starved = true
  l._permits:acquire()
  l._starved = false
end

-- Whoever has connected already and sent something is served, as far as there are places: closing would reset those whom nobody has accepted.
local function accept_rest(l)
  while l._serve and l._permits:try_acquire() do
    local c = l._listener:accept(0)
    if not c then return l._permits:release() end
    if not has_unread(c) or not pcall(l._serve, c) then
      c:close()
      l._permits:release()
      if l._source then l._source:ended() end
    end
  end
end

-- Whoever has just answered, or is about to, ends; what waits for its next request is closed.
local function begin_closing(l)
  if l._closing then return end
  l._closing = true
  -- Otherwise the fiber that accepts has not begun, and does this first.
  if l._serve then
    accept_rest(l)
    l._listener:close()
  end
  local idle = {}
  for state in next, l._connections do
    if state.idle then idle[#idle + 1] = state end
  end
  for _, state in ipairs(idle) do close_idle(state) end
end

local function accept(server, l, scope)
  local listener = l._listener
  does("http listener", listener)
  function l._serve(c) return scope:spawn(connection, server, l, c) end
  while not l._closing do
    local c, message, code = listener:accept()
    if c then
      admit(l)
      l._serve(c)
      local span = server._options.idle_timeout
      if span and not l._counting then
        l._counting = true
        scope:daemon(count_ticks, l, span)
      end
    elseif code == "closed" then
      -- Perhaps by somebody else who has the listener.
      return begin_closing(l)
    else
      report(server, "cannot accept: " .. message)
      sleep(0.05)
    end
  end
  accept_rest(l)
  listener:close()
end

-- Listeners ------------------------------------------------------------------------------------------------------------------------

local function check_grace(grace)
  if type(grace) == "number" and grace == grace then return end
  local got = grace ~= grace and "nan" or type(grace)
  error("bad argument #1 to 'close' (number of seconds expected, got " .. got .. ")", 3)
end

local Listener = { __name = "http.listener" }
Listener.__index = Listener

function Listener:address() return self._listener:address() end

function Listener:endpoint() return self._listener:endpoint() end

function Listener:info()
  local idle = 0
  for state in next, self._connections do
    if state.idle then idle = idle + 1 end
  end
  return { served = self._served, connections = self._active, idle = idle, closing = self._closing }
end

-- Waits until the listener has been closed and its connections have ended.
function Listener:wait(...)
  none_behind(0, "wait", ...)
  return self._fiber:await()
end

-- Accepts no more, closes what is idle, lets what is going on end, for so many seconds. True: all of it has ended by itself.
function Listener:close(grace, ...)
  none_behind(1, "close", ...)
  if grace == nil then grace = 10 end
  check_grace(grace)
  begin_closing(self)
  if self._fiber:status() == "pending" then
    if grace > 0 and self._fiber:await(grace) then return true end
    if self._fiber:cancel("the server is closed") then
      pcall(self._fiber.await, self._fiber)
      -- Which may not have begun.
      self._listener:close()
      return false
    end
  end
  return self._fiber:status() == "done"
end

Listener.__close = function(l) l:close(0) end

-- A listener that several domains serve, each with a server that is made there as this one was made here.
local Crew = { __name = "http.listener" }
Crew.__index = Crew
Crew.__close = Listener.__close
Crew.address, Crew.endpoint, Crew.wait = Listener.address, Listener.endpoint, Listener.wait

function Crew:info()
  local sum = { served = 0, connections = 0, idle = 0, closing = self._closing }
  for _, one in ipairs(self._crew) do
    local answer = pl.channel.new(1)
    if one.control:try_send("info", answer) then
      local served, connections, idle = answer:recv_timeout(1)
      if served then
        sum.served, sum.connections, sum.idle = sum.served + served, sum.connections + connections, sum.idle + idle
      end
    end
  end
  return sum
end

function Crew:close(grace)
  if grace == nil then grace = 10 end
  check_grace(grace)
  if not self._closing then
    self._closing, self._crew.grace = true, grace
    core.spread().rest(self._crew, self._listener)
    self._listener:close()
  end
  return self._fiber:await()
end

-- What a domain of a crew does: the steps by which the server was made, and serving what 'source' accepts.
local function in_domain(source, control, options, steps)
  local server = require "perilune.http".server(options)
  for _, step in ipairs(steps) do server[step[1]](server, table.unpack(step, 2, step.n)) end
  return require "perilune".scope(function()
    local l = server:listen(source)
    while true do
      local word, value = control:recv()
      if word ~= "info" then return l:close(word == "close" and value or 0) end
      local info = l:info()
      value:try_send(info.served, info.connections, info.idle)
    end
  end)
end

-- Servers --------------------------------------------------------------------------------------------------------------------------

local Server = { __name = "http.server" }
Server.__index = Server

-- Each step by which the server is made, for domains that make one like it.
local function step(server, ...)
  local steps = server._steps
  steps[#steps + 1] = table.pack(...)
end

local ROUTE_KINDS = { body_limit = "count", timeout = "seconds" }

function Server:route(method, pattern, f, options, ...)
  none_behind(4, "route", ...)
  if type(method) ~= "string" or not core.is_token(method) then error("bad argument #1 to 'route' (no method: " .. tostring(method) .. ")", 2) end
  if type(f) ~= "function" then error("bad argument #3 to 'route' (function expected, got " .. type(f) .. ")", 2) end
  local route = core.options(options, ROUTE_KINDS, {}, 2)
  route.f = f
  self._router:add(method, pattern, route)
  step(self, "route", method, pattern, f, options)
  return self
end

for name, method in pairs { get = "GET", post = "POST", put = "PUT", delete = "DELETE", patch = "PATCH", head = "HEAD", options = "OPTIONS", any = "any" } do
  Server[name] = function(self, pattern, f, options, ...)
    none_behind(3, name, ...)
    if type(f) ~= "function" then error("bad argument #2 to '" .. name .. "' (function expected, got " .. type(f) .. ")", 2) end
    local route = core.options(options, ROUTE_KINDS, {}, 2)
    route.f = f
    self._router:add(method, pattern, route)
    step(self, name, pattern, f, options)
    return self
  end
end

-- f(connection, request, protocol) with what perilune.ws makes of a connection, for requests for WebSocket at this path.
function Server:ws(pattern, f, options, ...)
  none_behind(3, "ws", ...)
  if type(f) ~= "function" then error("bad argument #2 to 'ws' (function expected, got " .. type(f) .. ")", 2) end
  self:get(pattern, require "perilune.ws".handler(f, options), { timeout = false })
  self._steps[#self._steps] = table.pack("ws", pattern, f, options)
  return self
end

local function endpoint(req) return normal(req._route.f(req), req) end

-- f(req, next) is called for each request, also if there is no route; next(req) is what would have happened without it.
function Server:use(f, ...)
  none_behind(1, "use", ...)
  if type(f) ~= "function" then error("bad argument #1 to 'use' (function expected, got " .. type(f) .. ")", 2) end
  local uses = self._uses
  uses[#uses + 1] = f
  local chain = endpoint
  for n = #uses, 1, -1 do
    local use, following = uses[n], chain
    chain = function(req) return normal(use(req, following), req) end
  end
  self._chain = chain
  step(self, "use", f)
  return self
end

function Server:static(prefix, folder, options, ...)
  none_behind(3, "static", ...)
  if type(prefix) ~= "string" then error("bad argument #1 to 'static' (string expected, got " .. type(prefix) .. ")", 2) end
  if type(folder) ~= "string" then error("bad argument #2 to 'static' (string expected, got " .. type(folder) .. ")", 2) end
  step(self, "static", prefix, folder, options)
  options = core.options(options, { index = "string", hidden = "boolean", max_age = "seconds" }, { index = "index.html" }, 2)
  local f = core.files(folder, options)
  prefix = prefix:gsub("/$", "")
  self._router:add("GET", prefix .. "/*path", { f = f })
  return self
end

-- The option 'domains', and the others, which are the listener's.
local function count_of(options)
  if type(options) ~= "table" or options.domains == nil then return nil, options end
  local count, rest = options.domains, {}
  if math.type(count) ~= "integer" or count < 1 or count > 1024 then error("option 'domains' must be an integer from 1 to 1024", 3) end
  for name, value in pairs(options) do
    if name ~= "domains" then rest[name] = value end
  end
  return count, next(rest) ~= nil and rest or nil
end

-- What programs call what they have given, in a message that it cannot go to another domain: one list is that of the steps, the other that of the options.
local function say(steps)
  return function(message)
    message = message:gsub("the list, field %[(%d+)%]%[%d+%],", function(n)
      local step = steps[tonumber(n)]
      local place = step[1] == "route" and step[2] .. "', '" .. step[3] or step[2]
      return "the function of '" .. step[1] .. "'" .. (type(place) == "string" and " for '" .. place .. "'" or "")
    end, 1)
    return (message:gsub("the list, field '([%w_]+)',", "the option '%1'", 1))
  end
end

-- What a program is told that ends while this goes on.
local function service_of(listener)
  return "the server at " .. listener:endpoint() .. " (srv:run serves until it is stopped; listener:wait waits until it is closed)"
end

local function listen_in_domains(server, listener, is_own, count)
  local options, spread = {}, core.spread()
  for name, value in pairs(server._options) do options[name] = value end
  options.max_connections = -(-options.max_connections // count)
  local ok, crew = pcall(spread.begin, listener, count, "http", say(server._steps), in_domain, options, server._steps)
  if not ok then
    if is_own then listener:close() end
    error(crew, 0)
  end
  local l = setmetatable({ _listener = listener, _crew = crew, _closing = false }, Crew)
  l._fiber = core.service(function()
    does("http listener", listener)
    local closed <close> = is_own and listener or nil
    return spread.run(crew, listener, function(message)
      report(server, "cannot accept: " .. message)
      sleep(0.05)
    end)
  end, service_of(listener))
  return l
end

-- Listens: at an address, which may be host and port, or with a listener that there is. Serves in the background, as long as the scope lasts.
function Server:listen(address, options, behind, ...)
  local port
  if type(address) == "string" and type(options) == "number" then
    none_behind(3, "listen", ...)
    port, options = options, behind
  else
    none_behind(2, "listen", behind)
  end
  local listener, message, code, ok = address, nil, nil, nil
  local count, rest = count_of(options)
  local is_own, source = type(address) == "string", nil
  if is_own then
    if port then
      ok, listener, message, code = pcall(net.listen, address, port, rest)
    else
      ok, listener, message, code = pcall(net.listen, address, rest)
    end
    if not ok then error((listener:gsub("^perilune:%d+: ", ""):gsub("'perilune.net.listen'", "'listen'"):gsub("there are: backlog, tls", "there are: backlog, domains, tls")), 2) end
    if not listener then return nil, message, code end
  elseif type(address) == "table" and address.ended then
    -- in a domain of a crew
    source = address
  elseif type(address) ~= "userdata" or not pcall(function() return address:address() end) then
    error("bad argument #1 to 'listen' (address or listener expected, got " .. type(address) .. ")", 2)
  end
  if count then return listen_in_domains(self, listener, is_own, count) end
  local l = setmetatable({
    _listener = listener, _connections = {}, _active = 0, _served = 0, _closing = false, _starved = false, _tick = 0, _counting = false,
    _permits = pl.semaphore(self._options.max_connections), _source = source,
  }, Listener)
  l._fiber = core.service(function()
    does("http listener", listener)
    -- However the fiber ends; a listener of the program may have others who accept from it.
    local closed <close> = is_own and listener or nil
    pl.scope(function(scope) accept(self, l, scope) end)
    return true
  end, service_of(listener))
  return l
end

-- Serves until it is cancelled or SIGTERM comes: then it drains. 'ready' is called with the listener; options, if there are any, come before it.
function Server:run(address, options, ready, ...)
  none_behind(3, "run", ...)
  if type(options) ~= "table" and ready == nil then options, ready = nil, options end
  if ready ~= nil and type(ready) ~= "function" then
    local n = options == nil and 2 or 3
    error("bad argument #" .. n .. " to 'run' (function expected, got " .. type(ready) .. ")", 2)
  end
  local grace, drains, rest = 10, true, nil
  if type(options) == "table" then
    for name, value in pairs(options) do
      if name == "grace" then
        if type(value) ~= "number" or value ~= value or value < 0 then
          error("option 'grace' must be a number of seconds" .. (value ~= value and ", not nan" or ""), 2)
        end
        grace = value
      elseif name == "drain" then
        if type(value) ~= "boolean" then error("option 'drain' must be true or false", 2) end
        drains = value
      else
        rest = rest or {}
        rest[name] = value
      end
    end
  end
  local ended, message, code = pl.scope(function(scope)
    does "http server"
    local ok, l, message, code = pcall(self.listen, self, address, rest)
    if not ok then return false, l end
    if not l then return nil, message, code end
    -- Before 'ready' tells anybody that it serves. Where the system refuses, the signal ends the program, as ever.
    local stop <close> = drains and require "perilune.signal".on "TERM" or nil
    local drain = stop and scope:spawn(function()
      does "http server"
      if stop:recv() == nil then return nil end
      stop:close()                                          -- a second one ends the program
      return l:close(grace)
    end)
    if ready then ready(l) end
    local ok, whole = pcall(l.wait, l)
    if drain then
      stop:close()
      local drained = drain:await()
      if drained ~= nil then return drained end
    end
    if not ok then error(whole, 0) end
    return whole
  end)
  if ended == false and message then
    message = tostring(message):gsub("^perilune:%d+: ", ""):gsub("there are: backlog, domains, tls", "there are: backlog, domains, drain, grace, tls")
    error(message, 2)
  end
  if ended ~= nil then return ended end
  return nil, message, code
end

function core.server(options, ...)
  none_behind(1, "server", ...)
  options = core.options(options, KINDS, DEFAULTS, 2)
  return setmetatable({ _options = options, _router = core.router(), _uses = {}, _steps = {}, _chain = endpoint }, Server)
end

-- Helpers for handlers -------------------------------------------------------------------------------------------------------------

-- A response with JSON.
function core.json(value, status, ...)
  none_behind(2, "json", ...)
  local json = require "perilune.json"
  return { status = status or 200, headers = { ["content-type"] = "application/json" }, body = json.encode(value) }
end

function core.redirect(target, status, ...)
  none_behind(2, "redirect", ...)
  return { status = status or 302, headers = { location = target }, body = "" }
end

local Events = { __name = "http.events" }
Events.__index = Events

local function event_field(event, name)
  local value = event[name]
  if value == nil then return "" end
  value = tostring(value)
  if value:find "[\r\n%z]" then error("an event's '" .. name .. "' must be one line", 3) end
  return name .. ": " .. value .. "\n"
end

-- Sends an event: its data, or a table with data, event, id, retry (milliseconds). Nil, message, code when the client is gone.
function Events:send(event)
  if type(event) ~= "table" then event = { data = event } end
  local head = event_field(event, "event") .. event_field(event, "id") .. event_field(event, "retry")
  local data = tostring(event.data == nil and "" or event.data):gsub("\r\n?", "\n")
  local lines = ("data: " .. data:gsub("\n", "\ndata: ")) .. "\n\n"
  local ok, message, code = self._out:write(head .. lines)
  if not ok then return nil, message, code end
  return self._out:flush()
end

-- Keeps proxies from closing a connection on which nothing goes on.
function Events:comment(text)
  local ok, message, code = self._out:write(": " .. tostring(text or ""):gsub("[\r\n]", " ") .. "\n\n")
  if not ok then return nil, message, code end
  return self._out:flush()
end

-- A response of server-sent events: f(events).
function core.events(f)
  if type(f) ~= "function" then error("bad argument #1 to 'events' (function expected, got " .. type(f) .. ")", 2) end
  return {
    status = 200,
    headers = { ["content-type"] = "text/event-stream", ["cache-control"] = "no-cache" },
    stream = function(out) f(setmetatable({ _out = out }, Events)) end,
  }
end

-- Middleware that compresses strings for clients that understand it.
function core.gzip_middleware(options)
  options = core.options(options, { least = "count" }, { least = 1024 }, 2)
  return function(req, following)
    local res = following(req)
    local body = res and res.body
    if type(body) ~= "string" or #body < options.least or res.headers["content-encoding"] or res.headers["content-length"] then return res end
    -- A part of a text is no text that could be compressed for itself.
    if res.status == 206 then return res end
    local kind = res.headers["content-type"] or ""
    if not (kind:find "^text/" or kind:find "json" or kind:find "xml" or kind:find "javascript") then return res end
    local vary = res.headers.vary
    res.headers.vary = vary and vary .. ", accept-encoding" or "accept-encoding"
    for word, rest in (req.headers["accept-encoding"] or ""):lower():gmatch "([%w*]+)([^,]*)" do
      if word == "gzip" and not rest:find "q=0%.?0*%s*$" then
        res.body = core.gzip(body)
        res.headers["content-encoding"] = "gzip"
        break
      end
    end
    return res
  end
end
