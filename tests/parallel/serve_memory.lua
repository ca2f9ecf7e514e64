-- What an idle connection of `l:serve` holds on the heap: its fiber's stack is the one that it began with.
-- stress: no
local pl, net = require "perilune", require "perilune.net"

local COUNT = 400
local function held(serve)
  local bytes
  local begun = 0
  pl.scope(function(s)
    local listener = net.listen("127.0.0.1:0")
    local function handler(c)
      begun = begun + 1
      local line = c:read()
      if line then c:write(line) end
    end
    s:spawn(serve, listener, handler)
    local clients = {}
    for i = 1, COUNT do clients[i] = assert(net.connect(listener:endpoint())) end
    while begun < COUNT do pl.sleep(0.001) end
    collectgarbage()
    collectgarbage()
    bytes = collectgarbage "count" * 1024
    for i = 1, COUNT do clients[i]:close() end
    listener:close(0)
  end)
  return bytes
end

local function plain(listener, handler)
  pl.scope(function(s)
    while true do
      local c = listener:accept()
      if not c then return end
      s:spawn(handler, c)
    end
  end)
end
local function serve(listener, handler) listener:serve(handler) end

-- In this order: stacks are used again, with the size that they have.
held(plain)
local least = held(plain)
local more = (held(serve) - least) / COUNT
print("as much as a fiber of a scope, but for 100 bytes", more < 100 or more)
