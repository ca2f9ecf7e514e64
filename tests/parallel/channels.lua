-- Channels: capacities, order, closing, timeouts, select, iteration.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, (tostring(message):gsub("0x%x+", "ADDR")))
end

-- one domain, unbounded
local c = pl.channel.new()
c:send(1) c:send("two", nil, 3) c:send({ x = { 1, 2 } })
print(#c, c:recv())
print(c:recv())
print(c:recv().x[2], #c, c:try_recv())
print(c:recv_timeout(0.01))
print(c:close(), c:close(), c:is_closed())
print(c:recv())
print(c:try_send(1))
refused(function() c:send(1) end)

-- bounded
c = nil
local c = pl.channel.new(2, "small")
print(c, c:try_send(1), c:try_send(2), c:try_send(3))
print(c:send_timeout(0.01, 3))
print(c:recv(), c:try_send(3), c:recv(), c:recv(), c:try_recv())

-- rendezvous between domains
local c = pl.channel.new(0)
print(c:try_send(1))
local d = pl.domain.spawn(function() for i = 1, 5 do c:send(i * i) end c:close() end)
local got = {}
for v in c do got[#got + 1] = v end
d:join()
print(table.concat(got, " "))

-- many senders and receivers: every message arrives once
local work, results = pl.channel.new(4), pl.channel.new()
local workers = {}
for w = 1, 4 do
  workers[w] = pl.domain.spawn(function()
    local n = 0
    for v in work do results:send(v * 2) n = n + 1 end
    return n
  end)
end
for i = 1, 200 do work:send(i) end
work:close()
local n = 0
for w = 1, 4 do n = n + workers[w]:join() end
results:close()
local sum, count = 0, 0
for v in results do sum, count = sum + v, count + 1 end
print(n, count, sum)

-- select
local a, b = pl.channel.new(), pl.channel.new(1)
print(pl.channel.select { a, b, timeout = 0 })
print(pl.channel.select { a, b, timeout = 0.01 })
a:send("x", "y")
print(pl.channel.select { a, b })
print(pl.channel.select { a, { b, "into b" } })
print(pl.channel.select { a, b })
d = pl.domain.spawn(function() pl.sleep(0.01) a:send("late") end)
print(pl.channel.select { b, a, timeout = 100 })
d:join()
a:close()
print(pl.channel.select { b, a })
refused(pl.channel.select, { 1 })
refused(pl.channel.select, {})
refused(pl.channel.select, { timeout = 1 })
refused(function() pl.channel.select { { a, 1 } } end)

-- both sides of the same channel in one select
local own = pl.channel.new(0)
print(pl.channel.select { own, { own, 1 }, timeout = 0.01 })
print(pl.channel.select { { own, 1 }, own, timeout = 0.01 })

-- a wait that closing ends
local c = pl.channel.new(0)
d = pl.domain.spawn(function() return c:recv() end)
pl.sleep(0.01)
c:close()
print(d:join())

-- messages are copies
local t = { 1 }
local c = pl.channel.new()
c:send(t)
t[1] = 2
print(c:recv()[1])
-- channels in messages
c:send { reply = c }
print(c:recv().reply == c)
refused(function() c:send(coroutine.create(print)) end)
refused(pl.channel.new, -1)
