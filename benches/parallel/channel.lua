-- Messages from one domain to another: numbers and small tables, in channels with and without a capacity.
-- bench: group=parallel size=3000000 quick=50000 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 3000000

local function numbers(channel, count)
  for i = 1, count do channel:send(i) end
  channel:close()
end

local function tables(channel, count)
  for i = 1, count do channel:send { id = i, x = i * 0.5 } end
  channel:close()
end

local function receive_numbers(channel)
  local sum = 0
  for v in channel do sum = sum + v end
  return sum
end

local function receive_tables(channel)
  local sum = 0
  for v in channel do sum = sum + v.id end
  return sum
end

-- Million messages per second, the best of ten rounds.
local function rate(send, receive, count, capacity)
  local least = math.huge
  for _ = 1, 10 do
    local channel = pl.channel.new(capacity)
    local started = pl.now()
    local sender = pl.domain.spawn(send, channel, count)
    local receiver = pl.domain.spawn(receive, channel)
    local sum = receiver:join()
    sender:join()
    least = math.min(least, pl.now() - started)
    assert(sum == count * (count + 1) // 2)
  end
  return count / least / 1e6
end

local parts <const> = n // 10
print(string.format("numbers, unbounded: %.2f M/s (goal >= 5)", rate(numbers, receive_numbers, parts)))
print(string.format("numbers, capacity 1000: %.2f M/s", rate(numbers, receive_numbers, parts, 1000)))
print(string.format("small tables, unbounded: %.2f M/s (goal >= 1)", rate(tables, receive_tables, parts)))
print(string.format("small tables, capacity 1000: %.2f M/s", rate(tables, receive_tables, parts, 1000)))
print(string.format("numbers, rendezvous: %.3f M/s", rate(numbers, receive_numbers, parts // 20, 0)))
