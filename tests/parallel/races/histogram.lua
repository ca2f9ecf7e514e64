-- The lost update of the textbook, in iterations that one part of the loop may run one after the other.
local pl = require "perilune"
local pool = pl.pool.default()
local hist = pl.array("i64", 16)
pool:parallel_for(1, 100, function(i)
  local b = i % 16 + 1
  hist[b] = hist[b] + 1
end)
-- race: 7 7

local sound = pl.array("i64", 16)
pool:parallel_for(1, 100, function(i) sound:add(i % 16 + 1, 1) end)
assert(sound:sum() == 100)

-- With a plain store between the changes.
local spoilt = pl.array("i32", 1)
pool:parallel_for(1, 10, function(i)
  if i ~= 5 then return spoilt:add(1, 1) end
  spoilt[1] = 0
end)
-- race: 18 19
-- An iteration that does both has an order with those that it came after.
pool:parallel_for(1, 10, function(i)
  spoilt:add(1, 1)
  if i == 5 then spoilt[1] = 0 end
end)
-- maybe: 24 25

-- A loop in place that needs the neighbours' old values.
local cells = pl.array("f64", 100):fill(1)
pool:parallel_for(2, 99, function(i)
  cells[i] = (cells[i - 1] + cells[i + 1]) / 2
end)
-- race: 32 32
