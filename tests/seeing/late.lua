-- Who was on the processor when a domain was late?
--
--   perilune prof offcpu --sched late.lua
--
-- A domain computes without ever waiting. Beside it run processes that have nothing to do with it, more than there are
-- processors: the domain has to share.

local pl = require "perilune"

local processors <const> = tonumber(arg[1]) or 2
local seconds <const> = tonumber(arg[2]) or 0.6

local hogs = {}
for n = 1, processors do
  -- A shell that runs in circles, called "sh".
  hogs[n] = io.popen(string.format("timeout %g sh -c 'while :; do :; done'", seconds))
end

local worker = pl.domain.spawn({ name = "worker" }, function(seconds)
  local pl = require "perilune"
  local till, s = pl.now() + seconds, 0
  repeat
    for i = 1, 100000 do s = (s * 31 + i) % 1000003 end
  until pl.now() > till
  return "done"
end, seconds)

print(worker:join())
for _, hog in ipairs(hogs) do hog:close() end
