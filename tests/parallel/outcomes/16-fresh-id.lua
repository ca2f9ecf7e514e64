-- A counter that is captured and assigned: there would be two of them.
local pl, try = require "perilune", require "lib.try"
local count = 0
local function fresh_id()
  count = count + 1
  return count
end
fresh_id()
try(pl.domain.spawn, fresh_id)
local id
local function next_id()
  id = (id or 0) + 1
  return id
end
try(pl.domain.spawn, next_id)
local last
for i = 1, 3 do
  last = i
end
try(function() return pl.domain.spawn(function() return last end):join() end)
local a <const> = pl.atomic(0)
print(pl.domain.spawn(function() return a:add(1) end):join() ~= nil)
