-- What bodies of loops share that they should not.
local pl = require "perilune"
local pool = pl.pool.default()
local scratch = pl.array("f64", 4)

local function work(i)
  scratch[1] = i
  return scratch[1]
end
pool:parallel_reduce(1, 100, 0, work, function(a, b) return a + b end)
-- race: 7 7
-- maybe: 7 8

pool:parallel_find(1, 100, function(i)
  scratch[2] = i
end)
-- race: 15 15

pool:map({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, function(x)
  scratch[3] = x
end)
-- race: 20 20

-- One buffer for each chunk is one for each task, if the loop has that chunk.
local buffers = pl.array("f64", 10)
local function buffered(i)
  local b = (i - 1) // 10 + 1
  buffers[b] = buffers[b] + i
end
pool:parallel_for(1, 100, buffered, { chunk = 10 })
assert(buffers:sum() == 5050)
pool:parallel_for(1, 100, buffered, { chunk = 5 })
-- race: 28 28

local function summed(i)
  buffered(i)
  return i
end
local function add(x, y) return x + y end
assert(pool:parallel_reduce(1, 100, 0, summed, add, { chunk = 10 }) == 5050)
assert(not pool:parallel_find(1, 100, function(i) buffered(i) end, { chunk = 10 }))

-- The loops of two tasks.
local function fill(pool, n)
  pool:parallel_for(1, 10, function(i)
    buffers[i] = n
  end)
end
local t, u = pool:async(fill, pool, 1), pool:async(fill, pool, 2)
t:await() u:await()
-- race: 46 46
