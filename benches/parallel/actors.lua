-- What an actor costs beside a domain with a channel: making one, its memory while it waits, a message to it.
-- bench: group=parallel size=10000 quick=200 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 10000
local pool = pl.pool.default()

local function resident()
  local file <close> = assert(io.open "/proc/self/status")
  for line in file:lines() do
    local kib = line:match "^VmRSS:%s*(%d+)"
    if kib then return tonumber(kib) end
  end
end

local function serve(mailbox, ready)
  ready:send(true)
  local sum = 0
  for x in mailbox do sum = sum + x end
  return sum
end

-- Seconds to make one, KiB of one that waits, seconds of a message.
local function round(count, messages, make, send, finish)
  local ready, list = pl.channel.new(), {}
  local before, started = resident(), pl.now()
  for i = 1, count do list[i] = make(ready) end
  for _ = 1, count do ready:recv() end
  local made = (pl.now() - started) / count
  local each = (resident() - before) / count
  started = pl.now()
  for m = 1, messages do
    for i = 1, count do send(list[i], m) end
  end
  for i = 1, count do assert(finish(list[i]) == messages * (messages + 1) // 2) end
  return made, each, (pl.now() - started) / (count * messages)
end

local function actors(count, messages)
  return round(count, messages,
    function(ready) return pool:actor(serve, ready) end,
    function(a, x) a:send(x) end,
    function(a) a:close() return a:await() end)
end

local function domains(count, messages)
  return round(count, messages,
    function(ready)
      local c = pl.channel.new()
      return { c, pl.domain.spawn(serve, c, ready) }
    end,
    function(d, x) d[1]:send(x) end,
    function(d) d[1]:close() return d[2]:join() end)
end

actors(10, 10)
local made, each, message = actors(n, 10)
print(string.format("making an actor: %.1f us", made * 1e6))
print(string.format("memory of an actor that waits: %.1f KiB", each))
print(string.format("a message to an actor: %.2f us", message * 1e6))
made, each, message = domains(math.max(1, n // 20), 10)
print(string.format("making a domain: %.1f us", made * 1e6))
print(string.format("memory of a domain that waits: %.1f KiB", each))
print(string.format("a message to a domain: %.2f us", message * 1e6))
