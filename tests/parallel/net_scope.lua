-- Sockets in scopes: whatever ends a wait early, no byte is lost and nothing is left behind.
local net = require "perilune.net"
local pl = require "perilune"
local l = net.listen("127.0.0.1:0")
local a = net.connect(l:endpoint())
local b = l:accept()
-- a timeout around a read: nothing is lost
a:write("half") a:flush()
print(pl.timeout(0.02, function() return b:read_exact(8) end))
a:write("full") a:flush()
print(pl.timeout(100, function() return b:read_exact(8) end))
-- the first error cancels siblings that wait for sockets
print(select(2, pcall(pl.scope, function(s)
  s:spawn(function() b:read() print "not reached" end)
  s:spawn(function() l:accept() print "not reached" end)
  s:spawn(function() pl.sleep(0.01) error("stop", 0) end)
end)):match("^[^\n]*"))
-- and they can be waited for again
a:write("again") a:flush()
print(b:read())
-- a server in a scope
print(pl.scope(function(s)
  s:daemon(function()
    for c in l do
      s:spawn(function()
        local c <close> = c
        for line in c:lines() do c:write(line:reverse(), "\n") end
      end)
    end
  end)
  local answers = {}
  for i = 1, 3 do
    local c <close> = net.connect(l:endpoint())
    c:write("abc", i, "\n")
    answers[i] = c:read_line()
  end
  return table.concat(answers, " ")
end))
-- a connect that is cancelled: 192.0.2.1 answers nobody
local t = pl.now()
print(pl.timeout(0.05, function() return net.connect("192.0.2.1:9") end), pl.now() - t < 5)
-- cancel at each byte, by timeouts
local message = "0123456789"
local ok = 0
for at = 0, #message do
  a:write(message:sub(1, at)) a:flush()
  local got = pl.timeout(0.002, function() return b:read_exact(#message) end)
  assert(got == nil or at == #message)
  if got == nil then
    a:write(message:sub(at + 1)) a:flush()
    got = b:read_exact(#message)
  end
  if got == message then ok = ok + 1 end
end
print(ok)
