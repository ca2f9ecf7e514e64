-- Size and depth: no recursion anywhere.
local pl = require "perilune"
local n = 1000000
local list
for i = 1, n do list = { list } end
local c = pl.channel.new()
c:send(list)
local r, depth = c:recv(), 0
while r do r, depth = r[1], depth + 1 end
print(depth)
local long = ("x"):rep(100000000)
c:send({ long, long })
local t = c:recv()
print(#t[1], t[1] == t[2])
local f = function() return 0 end
for i = 1, 100000 do
  local g = f
  f = function() return g end
end
c:send(f)
r, depth = c:recv(), 0
while r ~= 0 do r, depth = r(), depth + 1 end
print(depth)
c:send(c)
print(c:recv() == c)
