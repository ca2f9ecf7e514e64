-- Closing a listener: who has connected and was not accepted is served by the listener's servers, and reset where there are none.
local pl = require "perilune"
local net = require "perilune.net"
local rpc = require "perilune.rpc"

local function clients(l, n)
  local list = {}
  for i = 1, n do
    list[i] = assert(net.connect(l:endpoint()))
    list[i]:write("hello ", i, "\n")
    list[i]:flush()
  end
  return list
end
local function answers(list)
  local lines = {}
  for i, c in ipairs(list) do
    local line, _, code = c:read_line()
    lines[i] = line or code
    c:close()
  end
  return table.concat(lines, ", ")
end

-- without a server: reset, or accepted by the program before it closes
local l = net.listen("127.0.0.1:0")
local list = clients(l, 2)
l:close()
print("nobody", answers(list))
l = net.listen("127.0.0.1:0")
list = clients(l, 2)
local served = 0
repeat
  local c = l:accept(0)
  if c then
    c:write(c:read_line(), "\n")
    c:close()
    served = served + 1
  end
until not c
l:close()
print("accepted", served, answers(list))

-- a server that has no room for them when it is closed
local function serve(options, handler)
  local l = net.listen("127.0.0.1:0")
  return pl.scope(function(s)
    local go_on = pl.channel.new()
    local serving = s:spawn(function()
      return l:serve(function(c) handler(c, go_on) end, options)
    end)
    for _ = 1, 5 do pl.yield() end -- it has begun
    local list = clients(l, 3)
    print("closed", l:close(), l:close())
    print("refused", (select(3, net.connect(l:endpoint()))))
    go_on:close()
    local text = answers(list)
    return text, serving:await()
  end)
end
print("serve", serve({ max = 1 }, function(c, go_on) go_on:recv() c:write(c:read_line(), "\n") end))
-- who does not end in time ends the server, also if others wait for room
print("grace", serve({ max = 1, grace = 0.05, on_error = print }, function() pl.sleep(100) end))

-- several domains
l = net.listen("127.0.0.1:0")
pl.scope(function(s)
  local serving = s:spawn(function() return l:serve(function(c) c:write(c:read_line(), "\n") end, { domains = 2 }) end)
  print("domains", answers(clients(l, 1)))
  local list = clients(l, 10)
  l:close()
  print("domains", answers(list))
  print(serving:await())
end)

-- remote calls: they connect while this domain computes, which then closes the listener
l = net.listen("127.0.0.1:0")
local connected = pl.atomic(0)
pl.scope(function(s)
  rpc.serve(l, { add = function(a, b) return a + b end })
  for _ = 1, 5 do pl.yield() end
  local d = pl.domain.spawn(function(endpoint, connected)
    local net, rpc = require "perilune.net", require "perilune.rpc"
    local sum, links = 0, {}
    for i = 1, 3 do
      links[i] = assert(net.connect(endpoint))
      connected:add(1)
    end
    for i = 1, 3 do
      local c = assert(rpc.connect(links[i]))
      sum = sum + c:add(i, 10)
      c:close()
    end
    return sum
  end, l:endpoint(), connected)
  while connected:load() < 3 do end
  l:close()
  print("rpc", d:join())
end)
