-- Why do connections wait, and what did requests wait for?
--
--   perilune latency peers.lua
--
-- Each part has one trouble that a trace has to name: a client that writes a message in two calls while Nagle's algorithm is on; a client that sends its message byte by byte; a peer that
-- takes its time; a peer that sends half of a message; one that does not read; a fiber that computes beside connections; and a server one of whose routes waits.

local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"
local rpc = require "perilune.rpc"

-- A listener whose connections 'serve' has, and a client of it.
local function pair(s, serve, options)
  local l = assert(net.listen("127.0.0.1:0"))
  s:spawn(function()
    local c <close> = assert(l:accept())
    serve(c)
  end)
  options = options or {}
  options.host, options.port = "127.0.0.1", select(2, l:address())
  return assert(net.connect(options))
end

local function nagle(c)
  for _ = 1, 20 do
    c:write(("h"):rep(40))
    c:flush()
    c:write(("b"):rep(136))
    c:flush()
    assert(c:read_exact(96))
  end
end

local function pieces(c)
  for n = 1, 256 do
    c:write(string.char(n % 256))
    c:flush() -- a byte
  end
end

local function asks(c)
  for _ = 1, 3 do
    c:write "question\n"
    assert(c:read_line()) -- an answer
  end
end

local function compute(till)
  local s = 0
  repeat
    for i = 1, 10000 do s = (s * 31 + i) % 1000003 end
  until pl.now() >= till
  return s
end

local parts = {}

function parts.nagle(s)
  local c <close> = pair(s, function(c)
    while c:read_exact(176) do c:write(("a"):rep(96)) end
  end, { nodelay = false })
  nagle(c)
end

function parts.pieces(s)
  local c <close> = pair(s, function(c) c:read_all() end)
  pieces(c)
end

function parts.peer(s)
  local c <close> = pair(s, function(c)
    for line in c:lines() do
      pl.sleep(0.03)
      c:write(line, "\n")
    end
  end)
  asks(c)
end

function parts.halves(s)
  local c <close> = pair(s, function(c)
    c:write "half "
    c:flush()
    pl.sleep(0.03)
    c:write "and half\n"
  end)
  assert(c:read_line() == "half and half")
end

function parts.full(s)
  local c <close> = pair(s, function(c)
    pl.sleep(0.05)
    c:read_all(1 << 30)
  end)
  c:set { high_water = 1 << 16 }
  for _ = 1, 256 do c:write(("x"):rep(1 << 16)) end
end

function parts.starved(s)
  local gate = pl.channel.new()
  local c <close> = pair(s, function(c)
    for line in c:lines() do c:write(line, "\n") end
  end)
  s:spawn(function()
    for _ = 1, 3 do
      gate:recv()
      compute(pl.now() + 0.03)
    end
  end)
  for _ = 1, 3 do
    gate:send(true)
    c:write "x\n"
    assert(c:read_line())
  end
end

function parts.requests()
  local server = http.server()
  server:get("/slow/:id", function()
    pl.sleep(0.02)
    return "late\n"
  end)
  server:get("/busy", function()
    compute(pl.now() + 0.01)
    return "hot\n"
  end)
  server:get("/broken", function() error { status = 503, body = "no\n" } end)
  local l <close> = server:listen "127.0.0.1:0"
  local base = "http://" .. l:endpoint()
  for id = 1, 5 do assert(http.get(base .. "/slow/" .. id).status == 200) end
  for _ = 1, 3 do assert(http.get(base .. "/busy").status == 200) end
  assert(http.get(base .. "/broken").status == 503)
  assert(http.get(base .. "/nowhere").status == 404)
  local calls = assert(net.listen "127.0.0.1:0")
  rpc.serve(calls, {
    wait = function(seconds) pl.sleep(seconds) return true end,
    fail = function() error "on purpose" end,
  })
  local c <close> = assert(rpc.connect(calls:endpoint()))
  for _ = 1, 4 do c:wait(0.01) end
  assert(not pcall(c.fail, c))
  calls:close()
end

for _, name in ipairs(#arg > 0 and arg or { "nagle", "pieces", "peer", "halves", "full", "starved", "requests" }) do
  pl.scope(parts[name])
end
print "done"
