-- Coroutines live inside a task; what crosses is the function that makes them.
local pl = require "perilune"
local function upto(n) return coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end) end
local pool = pl.pool.new { workers = 2 }
print(pool:async(function(n)
  local s = 0
  for i in upto(n) do s = s + i end
  return s
end, 100):await())
pool:close()
