-- stress: no
-- A task is cancelled just when it begins to wait and its domain falls idle: it unwinds, and does not wait until nothing can happen any more.
local pl = require "perilune"
local ROUNDS = 1000
local pool = pl.pool.new { workers = 1 }
local gate = pl.channel.new(0)
local begun, unwound, deadlocks = pl.atomic(0), pl.atomic(0), pl.atomic(0)

local function waits()
  local seen <close> = setmetatable({}, { __close = function() unwound:add(1) end })
  begun:add(1)
  -- Not of a cancellation, which `pcall` does not catch.
  if not pcall(gate.recv, gate) then deadlocks:add(1) end
end

for n = 1, ROUNDS do
  local task = pool:async(waits)
  while begun:load() < n do end
  for _ = 1, n % 400 do end
  task:cancel()
  pcall(task.await, task)
end
while unwound:load() < ROUNDS do pl.sleep(0.001) end
print(begun:load(), unwound:load(), deadlocks:load())
