-- Random trees of scopes, timeouts, shields, semaphores and cancellations, in tasks of a pool and in the main domain. At the end nothing is open and all permits are back.
-- Usage: scopes.lua [seed]
local pl = require "perilune"
local seed = tonumber(arg[1]) or 1
local pool = pl.pool.new { workers = 4 }
local open = pl.atomic(0)
local finished = pl.atomic(0)
local sem = pl.semaphore(3)
local chan = pl.channel.new(2)

local function run(seed, depth)
  local pl = require "perilune"
  math.randomseed(seed)
  local random = math.random
  local function tracked() open:add(1) return setmetatable({}, { __close = function() open:sub(1) end }) end
  local node
  local function wait()
    local t <close> = tracked()
    local k = random(9)
    if k == 1 then pl.sleep(random() * 0.002)
    elseif k == 2 then pl.yield()
    elseif k == 3 then sem:with(pl.sleep, random() * 0.001)
    elseif k == 4 then chan:send_timeout(0.001, 1)
    elseif k == 5 then chan:recv(0.001)
    elseif k == 6 then pl.select { chan, pl.after(0.0005), { chan, 5 } }
    elseif k == 7 then for i = 1, 2000 do local _ = {} end
    elseif k == 8 then pl.shield(pl.sleep, 0.0005)
    else pl.timeout(0.0005, pl.sleep, 1) end
  end
  function node(depth)
    local t <close> = tracked()
    local k = random(7)
    if depth == 0 then return wait() end
    if k == 1 then
      pl.scope(function(s)
        for _ = 1, random(3) do s:spawn(node, depth - 1) end
        s:daemon(function() while true do wait() end end)
        wait()
      end)
    elseif k == 2 then
      pl.timeout(random() * 0.003, node, depth - 1)
    elseif k == 3 then
      pcall(pl.scope, function(s)
        s:spawn(node, depth - 1)
        s:spawn(function() wait() error "x" end)
        node(depth - 1)
      end)
    elseif k == 4 then
      pl.scope(function(s)
        local f = s:spawn(node, depth - 1)
        wait()
        f:cancel()
        node(depth - 1)
        if random(2) == 1 then s:cancel() end
      end)
    elseif k == 5 then pl.all { function() node(depth - 1) end, function() node(depth - 1) end }
    elseif k == 6 then pl.race { function() node(depth - 1) end, function() wait() end }
    else pl.each({ 1, 2, 3 }, { limit = 2 }, function() node(depth - 1) end) end
  end
  for _ = 1, 5 do node(depth) end
  finished:add(1)
end

local tasks = {}
for i = 1, 24 do tasks[i] = pool:async(run, seed * 1000 + i, 3) end
pl.scope(function(s)
  for i = 1, 4 do s:spawn(run, seed * 77 + i, 3) end
  pl.sleep(0.05)
  for i = 1, 24, 3 do tasks[i]:cancel() end
end)
for i = 1, 24 do pcall(tasks[i].await, tasks[i]) end
assert(open:load() == 0, "open " .. open:load())
assert(sem:free() == 3, "free " .. sem:free())
print(finished:load() > 0)
