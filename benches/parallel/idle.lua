-- What a domain that waits costs in memory: many alive at once, each has run something and receives from a channel.
-- bench: group=parallel size=1000 quick=100 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 1000

local function resident()
  local file <close> = assert(io.open "/proc/self/status")
  for line in file:lines() do
    local kib = line:match "^VmRSS:%s*(%d+)"
    if kib then return tonumber(kib) end
  end
end

local function threads()
  local file <close> = assert(io.open "/proc/self/status")
  return tonumber(file:read("a"):match "\nThreads:%s*(%d+)")
end

local function idle(gate, ready)
  local list = {}
  for i = 1, 10 do list[i] = { i } end
  ready:send(#list)
  return gate:recv() or #list
end

local function round(count)
  local gate, ready, running = pl.channel.new(), pl.channel.new(), {}
  local before = resident()
  for i = 1, count do running[i] = pl.domain.spawn(idle, gate, ready) end
  for _ = 1, count do assert(ready:recv() == 10) end
  assert(pl.domain.count() == count + 1)
  pl.sleep(0.05)
  local each, lasting = (resident() - before) / count, threads()
  gate:close()
  for _, d in ipairs(running) do assert(d:join() == 10) end
  collectgarbage()
  collectgarbage()
  -- Threads and the memory of domains are kept for a while, in case they are needed again.
  pl.sleep(count >= 1000 and 4 or 0.05)
  return each, lasting, resident() - before
end

round(4)
local each, lasting, left = round(n)
print(string.format("memory of an idle domain: %.1f KiB (goal <= 256)", each))
print(string.format("threads while all of them wait: %d threads", lasting))
print(string.format("memory left a while after their end: %.1f MiB", left / 1024))
