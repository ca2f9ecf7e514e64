-- Datagrams.
local net = require "perilune.net"
local pl = require "perilune"

local a, b = net.udp("127.0.0.1:0"), net.udp("127.0.0.1:0")
print(a:send("one", b:endpoint()), a:send("", b:endpoint()), a:send(("x"):rep(60000), b:endpoint()))
local bytes, from = b:recv()
print(bytes, from == a:endpoint())
print(#b:recv(), #b:recv())
print(b:send("two halves", a:address()), (a:recv()), (pcall(b.send, b, "none", (a:address()))))
print(b:set{read_timeout = 0.01} == b)
print(b:recv())
print(a:send(("x"):rep(70000), b:endpoint()))
print(pcall(a.send, a, "x", "localhost:1"))
print(pcall(net.udp, "unix:x"))
print(net.udp(a:endpoint()) == nil)

-- received in another domain; closed under it
b:set{read_timeout = false}
local received = pl.channel.new()
local d = pl.domain.spawn(function(b, received)
  local all = {}
  while true do
    local bytes, why = b:recv()
    if not bytes then all[#all + 1] = why break end
    all[#all + 1] = bytes
    received:send(bytes)
  end
  return table.concat(all, " ")
end, b, received)
for i = 1, 5 do a:send(tostring(i), b:endpoint()) end
for _ = 1, 5 do received:recv() end
print(b:close(), b:close())
print(d:join())
print(b:recv()) print(b:send("x", a:endpoint()))

-- both kinds of addresses at one socket, and cancelling
local any <close> = net.udp()
local _, port = any:address()
print(any:send("self", "127.0.0.1:" .. port), (any:recv()))
print(pl.timeout(0.01, function() return any:recv() end))
a:send("after", "127.0.0.1:" .. port)
print((any:recv()))
