-- What of remote calls is written in Lua: the fibers of a server. The essay is in mod.rs; who works on what is in jobs.rs.
local rpc, natives = ...
local error, getmetatable, ipairs, next, pcall, rawget = error, getmetatable, ipairs, next, pcall, rawget
local setmetatable, type, xpcall = setmetatable, type, xpcall
local format, traceback = string.format, debug.traceback
local pl, net = require "perilune", require "perilune.net"
local scope = pl.scope
local daemon, service, does = natives.daemon, natives.service, natives.does

local UNKNOWN <const> = 1

-- Errors of served functions, with where they were raised -----------------------------------------

local failure_mt = {}

local function failure(value, trace) return setmetatable({ value = value, traceback = trace }, failure_mt) end

local function caught(value)
  if getmetatable(value) == failure_mt then return value end
  if type(value) ~= "string" then return failure(value, "") end
  return failure(value, traceback(nil, 2))
end

local function finish(peer, id, ok, ...)
  if ok then return peer:reply(id, ...) end
  local failure = ...
  if getmetatable(failure) ~= failure_mt then return peer:fail(id, 0, failure, "") end
  return peer:fail(id, 0, failure.value, failure.traceback)
end

-- Streams: each step of the iterator that the function returns --------------------------------------

local function steps(peer, id, f, ...)
  local iterate, state, control, closing = f(...)
  local closed <close> = closing
  if type(iterate) ~= "function" then
    local mt = getmetatable(iterate)
    if type(mt) ~= "table" or not mt.__call then
      error(failure(format("a function that is called as a stream returns an iterator, and this has returned a %s", type(iterate)), ""))
    end
  end
  local function step(first, ...)
    if first == nil then return end
    control = first
    return peer:item(id, first, ...)
  end
  while step(iterate(state, control)) do end
end

-- Requests ----------------------------------------------------------------------------------------

-- Works on one request; false: the worker is to end.
local function answer(peer, handlers, id, kind, name, ...)
  if id == nil then return false end
  local f = rawget(handlers, name)
  if not f then
    peer:fail(id, UNKNOWN, format("there is no remote function '%s'", name), "")
  elseif kind == "stream" then
    finish(peer, id, xpcall(steps, caught, peer, id, f, ...))
  else
    finish(peer, id, xpcall(f, caught, ...))
  end
  return true
end

local function work(peer, n, handlers, workers)
  does "rpc call"
  local gone <close> = setmetatable({}, { __close = function()
    workers[n] = nil
    peer:gone(n)
  end })
  local goes_on = answer(peer, handlers, peer:next(n, true))
  while goes_on do goes_on = answer(peer, handlers, peer:next(n)) end
end

-- The control fiber of a connection: its scope ends with the connection. Calls that still run for it then are cancelled; what it was notified of is carried out.
local function control(s, peer, handlers, connection)
  does("rpc connection", connection)
  local workers = {}
  local event, n = peer:event()
  while event do
    if event == "start" then
      workers[n] = s:daemon(work, peer, n, handlers, workers)
    elseif workers[n] then
      workers[n]:cancel "the call was cancelled"
    end
    event, n = peer:event()
  end
  local busy = {}
  for number, worker in next, workers do
    if peer:is_notified(number) then busy[#busy + 1] = worker else worker:cancel "the connection is over" end
  end
  while answer(peer, handlers, peer:left()) do end
  for _, worker in ipairs(busy) do pcall(worker.await, worker) end
end

-- What a server knows of one of its connections, until that has ended.
local Entry = {
  __close = function(entry) entry.open[entry] = nil end,
}

local function serve_connection(source, connection, handlers, calls, permit, entry)
  does("rpc connection", connection)
  local permit <close> = permit
  local entry <close> = entry
  -- in a domain of a crew
  local counted <close> = type(source) == "table" and setmetatable({}, { __close = function() source:ended() end }) or nil
  local connection <close> = connection
  local peer <close> = natives.serve(connection, calls)
  -- nil: a handshake has failed, which its client has been told
  if not peer then return end
  entry.peer = peer
  if entry.server.ends then peer:drain() end
  scope(control, peer, handlers, connection)
end

-- The module ---------------------------------------------------------------------------------------

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

local function check_integer(options, option, default, n, name)
  local value = options[option]
  if value == nil then return default end
  if math.type(value) ~= "integer" or value < 1 then
    error(format("bad argument #%d to '%s' (option '%s' must be an integer, at least 1)", n, name, option), 3)
  end
  return value
end

local serve_options = { max = true, calls = true, domains = true, all = "'max', 'calls', 'domains'" }

-- Hears how long connections may go on when the listener is closed, if whoever closes it says so, and cancels those that go on then. A connection without calls is closed at once.
local function limit(server, closing, kept)
  does "rpc listener"
  local grace = closing:recv()
  server.ends = math.type(grace) ~= nil
  server.told:close()
  if not server.ends then return end
  for entry in next, server.open do
    if entry.peer then entry.peer:drain() end
  end
  local over = pl.now() + grace
  while true do
    local n, more = pl.select { server.ended, closing, pl.after(math.max(over - pl.now(), 0)) }
    if n == 1 then return end
    if n == 3 then break end
    -- it was closed twice: who has less time comes first
    if math.type(more) then over = math.min(over, pl.now() + more) end
  end
  server.given_up = true
  if kept then kept:give_up() end
  for entry in next, server.open do entry.fiber:cancel "the listener is closed" end
end

-- Whether all connections have ended by themselves, where whoever closes the listener waits for that.
local function accept(source, handlers, calls, permits)
  does("rpc listener", source)
  local kept <close>, closing = natives.keep(source)
  -- that of a domain of a crew
  if type(source) == "table" then closing = source.closing end
  local server = { open = {}, ends = false, given_up = false, told = pl.channel.new(), ended = pl.channel.new() }
  if closing then daemon(limit, server, closing, kept) end
  while true do
    local permit = permits:permit()
    local connection, message, code = source:accept()
    if not connection then
      if code == "closed" then break end
      error(format("rpc.serve: %s", message), 0)
    end
    if server.given_up then
      local permit <close> = permit
      connection:abort()
    else
      local entry = setmetatable({ open = server.open, server = server }, Entry)
      server.open[entry] = true
      entry.fiber = daemon(serve_connection, source, connection, handlers, calls, permit, entry)
    end
  end
  if not closing then return true end
  server.told:recv()
  if not server.ends then return true end
  local entry = next(server.open)
  while entry do
    pcall(entry.fiber.await, entry.fiber)
    server.open[entry] = nil
    entry = next(server.open)
  end
  server.ended:close()
  return not server.given_up
end

-- What a domain of a crew does. Connections go on when the listener is closed, until the scope of the caller ends, which closes 'control'; or for as long as whoever closes the listener says.
local function in_domain(source, control, handlers, options)
  local rpc, pl = require "perilune.rpc", require "perilune"
  source.closing = pl.channel.new(1)
  return pl.scope(function()
    local serving = rpc.serve(source, handlers, options)
    local word, grace = control:recv()
    if word ~= "close" then return true end
    source.closing:send(grace)
    return serving:await()
  end)
end

-- The list is that of what is served.
local function say(message) return (message:gsub("the list, field '([^']*)',", "the remote function '%1'", 1)) end

-- What a program is told that ends while this goes on.
local function service_of(listener)
  local at = natives.is_listener(listener) and listener:endpoint() or "a listener"
  return "the server at " .. at .. " (rpc.serve(...):await() waits until its listener is closed)"
end

-- The same in several domains. The fiber ends when the listener is closed, as it does with one.
local function serve_in_domains(listener, handlers, count, max, calls)
  local spread = natives.spread()
  local crew = spread.begin(listener, count, "rpc", say, in_domain, handlers, { max = -(-max // count), calls = calls })
  local closed = pl.channel.new()
  daemon(function()
    local guard <close> = setmetatable({}, { __close = function() closed:close() end })
    return spread.run(crew, listener, function(message) error(format("rpc.serve: %s", message), 0) end, closed)
  end)
  return service(function() closed:recv() end, service_of(listener))
end

-- rpc.serve(listener, functions [, options])
function rpc.serve(listener, handlers, options, ...)
  none_behind(3, "serve", ...)
  if type(handlers) ~= "table" then
    error(format("bad argument #2 to 'serve' (table of functions expected, got %s)", type(handlers)), 2)
  end
  for name, f in next, handlers do
    if type(name) ~= "string" then
      error(format("bad argument #2 to 'serve' (the name of a function is a string, not a %s)", type(name)), 2)
    end
    if type(f) ~= "function" then
      error(format("bad argument #2 to 'serve' ('%s' is a %s, not a function)", name, type(f)), 2)
    end
  end
  options = check_options(options, 3, "serve", serve_options)
  local max, calls = check_integer(options, "max", 1000, 3, "serve"), check_integer(options, "calls", 256, 3, "serve")
  if not natives.is_listener(listener) and not (type(listener) == "table" and listener.ended) then
    error(format("bad argument #1 to 'serve' (listener expected, got %s)", type(listener)), 2)
  end
  if options.domains ~= nil then
    return serve_in_domains(listener, handlers, check_integer(options, "domains", 1, 3, "serve"), max, calls)
  end
  return service(function() return accept(listener, handlers, calls, pl.semaphore(max)) end, service_of(listener))
end

local connect_options = { timeout = true, window = true, all = "'timeout', 'window'" }

-- rpc.connect(address [, options]), rpc.connect(host, port [, options])
function rpc.connect(address, options, more, ...)
  local port
  if type(options) == "number" then
    none_behind(3, "connect", ...)
    port, options = options, more
  else
    none_behind(2, "connect", more)
  end
  options = check_options(options, 2, "connect", connect_options)
  local connection = address
  if type(address) ~= "userdata" then
    -- a mistake in the address is one of the caller
    local ok, message, code
    ok, connection, message, code = pcall(net.connect, address, port)
    if not ok then error(connection, 2) end
    if not connection then return nil, message, code end
  end
  return natives.attach(connection, options)
end
