-- Lines of one file, and of one connection, that two domains take: each comes once, whoever takes it, and
-- however far ahead the other one has read.

local pl = require "perilune"
local net = require "perilune.net"

local LINES, WIDTH = 40000, 100
local name = os.tmpname()
local rest = ("x"):rep(WIDTH - 8) .. "\n"
do
  local f = assert(io.open(name, "w"))
  for i = 1, LINES do f:write(("%07d"):format(i), rest) end
  f:close()
end
local whole = LINES * (LINES + 1) // 2

-- How many lines an iterator gives, but at most so many, and the sum of their numbers.
local function loop(lines, most)
  local n, sum = 0, 0
  for line in lines do
    assert(#line == WIDTH - 1)
    n, sum = n + 1, sum + tonumber(line:sub(1, 7))
    if n == most then break end
  end
  return n, sum
end

-- Lines that are in memory are taken without a lock only when the system has been told of it, which is done once
-- there have been some.
for _ = 1, 5 do assert(loop(io.lines(name)) == LINES) end
pl.sleep(0.05)

-- A loop that is left goes on where it was, in whatever way.
do
  local f = assert(io.open(name))
  local sum = 0
  for i = 1, 20 do
    local n, s = loop(f:lines(), 1000)
    assert(n == 1000)
    sum = sum + s + tonumber(f:read("l"):sub(1, 7)) + tonumber(f:read(WIDTH):sub(1, 7))
    assert(f:seek() == i * 1002 * WIDTH)
  end
  local n, s = loop(f:lines())
  print("left and gone on", n + 20 * 1002, sum + s == whole)
  f:close()
end

-- A loop in one domain, single reads in another.
local function beside(from, read, lines)
  local d = pl.domain.spawn(function()
    local n, sum = 0, 0
    while true do
      local line = read(from)
      if not line then return n, sum end
      n, sum = n + 1, sum + tonumber(line:sub(1, 7))
    end
  end)
  local n, sum = loop(lines(from))
  local others, theirs = d:join()
  return n + others, sum + theirs == whole
end

for _ = 1, 3 do
  local f = assert(io.open(name))
  print("a file", beside(f, function(f) return f:read("l") end, function(f) return f:lines() end))
  f:close()
end

-- Two loops.
do
  local f = assert(io.open(name))
  local d = pl.domain.spawn(function() return loop(f:lines()) end)
  local n, sum = loop(f:lines())
  local others, theirs = d:join()
  print("two loops", n + others, sum + theirs == whole)
end

-- Who closes it ends the loop of the other.
do
  local f = assert(io.open(name))
  local begun = pl.channel.new()
  local d = pl.domain.spawn(function()
    return pcall(function()
      while true do
        for line in f:lines() do assert(#line == WIDTH - 1) begun:try_send(true) end
        f:seek("set")
      end
    end)
  end)
  begun:recv()
  f:close()
  local ok, message = d:join()
  print("closed", ok, tostring(message):match("closed"))
end

-- Connections likewise. Only one may wait for more, so whoever is told that the other one does comes again; what
-- was said is not what is tested here.
local function until_done(step)
  while true do
    local ok, done = pcall(step)
    if ok and done then return end
    assert(ok or tostring(done):find("is being read already", 1, true), done)
    if not ok then pl.sleep(0.001) end
  end
end

for _ = 1, 3 do
  local listener = net.listen("127.0.0.1:0")
  local address = listener:endpoint()
  local sender = pl.domain.spawn(function()
    local c = net.connect(address)
    for i = 1, LINES do c:write(("%07d"):format(i), rest) end
    c:close()
  end)
  local c = listener:accept()
  local d = pl.domain.spawn(function()
    local n, sum = 0, 0
    until_done(function()
      local line = c:read_line()
      if not line then return true end
      assert(c:info().unread >= 0)
      n, sum = n + 1, sum + tonumber(line:sub(1, 7))
    end)
    return n, sum
  end)
  local n, sum = 0, 0
  until_done(function()
    for line in c:lines() do
      n, sum = n + 1, sum + tonumber(line:sub(1, 7))
    end
    return true
  end)
  local others, theirs = d:join()
  print("a connection", n + others, sum + theirs == whole)
  sender:join()
  c:close()
  listener:close()
end
do
  local listener = net.listen("127.0.0.1:0")
  local address = listener:endpoint()
  local sender = pl.domain.spawn(function()
    local c = net.connect(address)
    for i = 1, LINES do c:write(("%07d"):format(i), rest) end
    c:close()
  end)
  local c = listener:accept()
  local sum = 0
  for _ = 1, 20 do
    local n, s = loop(c:lines(), 1000)
    assert(n == 1000)
    sum = sum + s + tonumber(c:read_line():sub(1, 7)) + tonumber(c:read_exact(WIDTH):sub(1, 7))
    assert(#c:peek(7) == 7)
  end
  local n, s = loop(c:lines())
  print("left and gone on", n + 20 * 1002, sum + s == whole)
  sender:join()
  c:close()
end
os.remove(name)
