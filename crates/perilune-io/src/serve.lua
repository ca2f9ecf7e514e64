-- A listener that is served: `l:serve(handler)`, and how its connections are spread over domains. The essay is in serve.rs.
local serving, serve, keep, does = ...
local error, ipairs, math_type, pcall, setmetatable, tostring, traceback, type, xpcall = error, ipairs, math.type, pcall, setmetatable, tostring, debug.traceback, type, xpcall
local pl = require "perilune"

-- Connections that a domain has not accepted, at most.
local ROOM <const> = 16

-- In each domain -----------------------------------------------------------------------------------

-- One of the domains: `body` accepts from `source` as if that was the listener. `control` says when to end, and how; closed: at once.
local function member(body, inbox, control, active, listener, ...)
  local source = {}
  function source:accept(seconds)
    local connection, why = inbox:recv(seconds)
    if connection then return connection end
    if why == "timeout" then return nil, "timeout", "timeout" end
    return nil, "closed", "closed"
  end
  function source:close() return inbox:close() end
  function source:address() return listener:address() end
  function source:endpoint() return listener:endpoint() end
  -- A connection has ended.
  function source:ended() active:sub() end
  return body(source, control, ...)
end

-- The domain that accepts ---------------------------------------------------------------------------

local Crew = {}
Crew.__index = Crew

local function join(crew, one, listener)
  does(crew.does, listener)
  if not one.domain:join() then crew.all_ended = false end
end

-- Whose end is not an orderly one takes its domains along.
function Crew:__close()
  for _, one in ipairs(self) do
    one.inbox:close()
    one.control:close()
  end
  for _, one in ipairs(self) do
    pcall(one.domain.join, one.domain)
    -- What it has not taken.
    repeat
      local has, connection = one.inbox:try_recv()
      if has then connection:abort() end
    until not has
  end
end

-- Gives a connection to the domain with the fewest among those that have room, if there is one.
local function try_give(crew, connection)
  local found, fewest
  for _, one in ipairs(crew) do
    local count = one.active:load()
    if (not fewest or count < fewest) and #one.inbox < ROOM then found, fewest = one, count end
  end
  if not found or not found.inbox:try_send(connection) then return false end
  found.active:add()
  return true
end

-- If none has room, to the first that gets some. One that accepts none for a while holds up nobody else's.
local function give(crew, connection)
  if try_give(crew, connection) then return end
  local cases = {}
  for n, one in ipairs(crew) do cases[n] = { one.inbox, connection } end
  local n = pl.select(cases)
  crew[n].active:add()
end

-- Before the listener is closed, which would reset those whom nobody has accepted: hands out whoever has connected already, as far as there is room.
local function hand_out_rest(crew, listener)
  repeat
    local connection = listener:accept(0)
  until not connection or not try_give(crew, connection)
end

local function hand_out(crew, listener, refused)
  while true do
    local connection, message, code = listener:accept()
    if connection then
      give(crew, connection)
    elseif code == "closed" then
      return
    else
      refused(message)
    end
  end
end

-- What the fibers do that look after a crew of this name.
local DOES <const> = { serve = "listener", rpc = "rpc listener", http = "http listener" }

-- Begins `count` domains that run `body`, for connections of `listener`. What does not cross is an error here, in the words that `say` makes of it: it is known there what programs call
-- what they have given.
local function begin(listener, count, name, say, body, ...)
  local crew = setmetatable({ all_ended = true, grace = 10, does = DOES[name] }, Crew)
  for n = 1, count do
    local one = { inbox = pl.channel.new(ROOM), control = pl.channel.new(16), active = pl.atomic(0) }
    local ok, domain = pcall(pl.domain.spawn, name .. " " .. n, member, body, one.inbox, one.control, one.active, listener, ...)
    if not ok then
      Crew.__close(crew)
      error(type(domain) == "string" and say(domain) or domain, 0)
    end
    one.domain = domain
    crew[n] = one
  end
  return crew
end

-- Hands connections out until the listener is closed, and waits until all have ended. True: by themselves, in the time that there is for it.
-- With 'closed', a channel, the end of the listener ends only that, unless whoever closes it says how long connections may go on: they go on until this is cancelled.
local function run(crew, listener, refused, closed)
  local crew <close> = crew
  local kept, closing = keep(listener)
  local until_the_end <close> = kept
  pl.scope(function(s)
    for _, one in ipairs(crew) do s:spawn(join, crew, one, listener) end
    s:spawn(function()
      does(crew.does, listener)
      hand_out(crew, listener, refused)
      local grace = closing:recv(1)
      if closed and not math_type(grace) then
        -- Whoever closes the listener waits for its keepers, but not for connections that go on.
        local left <close> = kept
        return closed:close()
      end
      if math_type(grace) then crew.grace = grace end
      for _, one in ipairs(crew) do
        one.inbox:close()
        one.control:send("close", crew.grace)
      end
    end)
  end)
  if not crew.all_ended then kept:give_up() end
  return crew.all_ended
end

serving.begin, serving.run, serving.rest = begin, run, hand_out_rest

-- l:serve --------------------------------------------------------------------------------------------

local function report(on_error, problem, connection)
  if on_error then
    local ok, other = pcall(on_error, problem, connection)
    if ok then return end
    problem = problem .. "\nand on_error failed: " .. tostring(other)
  end
  io.stderr:write("perilune.net: ", problem, "\n")
end

local function trace(problem)
  return traceback(type(problem) == "string" and problem or tostring(problem), 2)
end

-- What the connections of a source have in common. It is closed at the end of each connection's fiber, however that comes.
local Served = {
  __close = function(served)
    served.permits:release()
    local source = served.source
    if type(source) == "table" then source:ended() end
  end,
}

-- With few variables: what a fiber's first stack has room for is half of what an idle connection takes.
local function serve_connection(connection, served)
  does("connection", connection)
  local ending <close> = served
  local connection <close> = connection
  local ok, problem = xpcall(served.handler, trace, connection)
  if not ok then
    connection:abort()
    report(served.on_error, problem, connection)
  end
end

-- Serves what `source` accepts, in this domain.
local function here(source, control, handler, options)
  local permits = pl.semaphore(options.max)
  local served = setmetatable({ source = source, handler = handler, on_error = options.on_error, permits = permits }, Served)
  local all_ended = true
  -- Until all connections have ended: whoever closes the listener may wait for that.
  local kept <close>, closing = keep(source)
  pl.scope(function(s)
    does("listener", source)
    local function give_up(grace)
      does "listener"
      pl.sleep(grace)
      all_ended = false
      if kept then kept:give_up() end
      s:cancel "the listener is closed"
    end
    if closing then
      -- Also while there is no room for more. It may be closed twice: who has less time comes first.
      s:daemon(function()
        does "listener"
        while true do
          local grace = closing:recv()
          if grace == nil then return end
          s:daemon(give_up, grace == true and options.grace or grace)
        end
      end)
    else
      s:daemon(function()
        does "listener"
        local word, time = control:recv()
        if word == "close" then give_up(time) else give_up(0) end
      end)
    end
    while true do
      permits:acquire()
      local connection, message, code = source:accept()
      if connection then
        s:spawn(serve_connection, connection, served)
      elseif code == "closed" then
        break
      else
        permits:release()
        report(options.on_error, "cannot accept: " .. message)
        pl.sleep(0.05)
      end
    end
  end)
  return all_ended
end

-- The same, in a domain of a crew.
local function in_domain(source, control, handler, options) return serve(source, handler, options, control) end

-- The list is that of the options.
local function say(message) return (message:gsub("the list, field '([%w_]+)',", "the option '%1'", 1)) end

local function refused(on_error)
  return function(message)
    report(on_error, "cannot accept: " .. message)
    pl.sleep(0.05)
  end
end

function serving.serve(listener, handler, options, control)
  local count = options.domains
  if not count then return here(listener, control, handler, options) end
  local share = { max = -(-options.max // count), grace = options.grace, on_error = options.on_error }
  local crew = begin(listener, count, "serve", say, in_domain, handler, share)
  crew.grace = options.grace
  return run(crew, listener, refused(options.on_error))
end
