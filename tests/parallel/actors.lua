-- Actors: a task with a mailbox. Messages one after the other, an end that senders are told of, and many of them.
local pl = require "perilune"
local function first_line(s) return (tostring(s):match "[^\n]*") end

local counter = pl.actor(function(mailbox, start)
  local n = start
  for what, x in mailbox do
    if what == "add" then n = n + x elseif what == "get" then x:send(n) end
  end
  return "ended", n
end, 10)
for i = 1, 100 do counter:send("add", i) end
local reply = pl.channel.new(1)
counter:send("get", reply)
print(reply:recv())
print(counter:await(0.001))
print(counter:close(), counter:close())
print(counter:await())
print(pcall(counter.send, counter, "add", 1))
print(counter:task():status(), #counter)

-- from many domains at once
local pool = pl.pool.new { workers = 3 }
local total = pool:actor(function(mailbox)
  local sum = 0
  for x in mailbox do sum = sum + x end
  return sum
end)
pool:parallel_for(1, 1000, function(i) total:send(i) end)
total:close()
print(total:await())

-- one that fails: whoever awaits it has the error, whoever sends is told
local bad = pl.actor(function(mailbox)
  local x = mailbox:recv()
  error("cannot do " .. x)
end)
bad:send "this"
print(first_line(select(2, pcall(bad.await, bad))))
print(first_line(select(2, pcall(bad.send, bad, "more"))))
local stopped = pl.actor(function(mailbox) mailbox:recv() end)
print(stopped:task():cancel(), pcall(stopped.await, stopped))
print(pcall(stopped.send, stopped))

-- the last handle closes the mailbox
local done = pl.channel.new()
do
  local a = pl.actor(function(mailbox)
    for _ in mailbox do end
    done:send "the mailbox was closed"
  end)
  a:send(1)
  a = nil
end
collectgarbage()
collectgarbage()
print(done:recv(10))

-- a ring of them, and one that sends to itself
local last = pl.channel.new()
local n = 200
local nexts = pl.actor(function(mailbox) for k in mailbox do last:send(k) end end)
for i = 1, n do
  local after = nexts
  nexts = pool:actor(function(mailbox, after) for k in mailbox do after:send(k + 1) end end, after)
end
for i = 1, 10 do nexts:send(i * 1000) end
local got = {}
for i = 1, 10 do got[i] = last:recv() end
print(got[1], got[10])
local loop = pool:actor(function(mailbox)
  local me = mailbox:recv()
  me:send(1)
  local k = mailbox:recv()
  while k < 10 do
    me:send(k + 1)
    k = mailbox:recv()
  end
  return k
end)
loop:send(loop)
print(loop:await())

-- many that wait
local many, sum = {}, 0
for i = 1, 2000 do many[i] = pool:actor(function(mailbox, i) return i + mailbox:recv() end, i) end
for i = 1, 2000 do many[i]:send(1) end
for i = 1, 2000 do sum = sum + many[i]:await() end
print(sum)
print(pcall(pl.actor, 5))

-- a channel may be closed by the end of a variable
local kept
do
  local c <close> = pl.channel.new()
  kept = c
end
print(kept:is_closed())
