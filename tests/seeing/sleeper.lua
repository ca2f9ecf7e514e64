-- Where does a program sleep that does almost nothing, and what wakes it?
--
--   perilune prof offcpu sleeper.lua
--
-- A clock gives a server a job now and then; the server sleeps between jobs, and for a moment within each.

local pl = require "perilune"

local jobs <const>, beat <const> = tonumber(arg[1]) or 12, tonumber(arg[2]) or 0.04

local inbox, replies = pl.channel.new(nil, "inbox"), pl.channel.new(nil, "replies")

local server = pl.domain.spawn({ name = "server" }, function(inbox, replies)
  local pl = require "perilune"
  local function serve(job)
    pl.sleep(0.005)
    return job * 2
  end
  for job in inbox do replies:send(serve(job)) end
end, inbox, replies)

local clock = pl.every(beat, function(n) inbox:send(n) end)
local sum = 0
for _ = 1, jobs do sum = sum + replies:recv() end
clock:cancel()
inbox:close()
server:join()
print(sum)
