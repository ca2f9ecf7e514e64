-- Tasks of a pool that do nothing, made and awaited by a task of the same pool, and by the main program, which has a thread of its own.
-- bench: group=parallel size=500000 quick=20000 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 500000

local function nothing() end

-- One after the other.
local function in_turn(pool, count)
  local started = pl.now()
  for _ = 1, count do pool:async(nothing):await() end
  return (pl.now() - started) / count * 1e6
end

-- A hundred at a time.
local function together(pool, count)
  local started = pl.now()
  for _ = 1, count // 100 do
    local tasks = {}
    for i = 1, 100 do tasks[i] = pool:async(nothing) end
    for i = 1, 100 do tasks[i]:await() end
  end
  return (pl.now() - started) / count * 1e6
end

-- The best of many short rounds: one of them is left alone by the rest of the machine.
local function best(pool, how)
  local least = math.huge
  for _ = 1, n // 1000 do least = math.min(least, (pool:async(how, pool, 1000):await())) end
  return least
end

-- The same for the main program.
local function best_of_main(pool, how, count)
  local least = math.huge
  for _ = 1, n // 2000 do least = math.min(least, how(pool, count)) end
  return least
end

local function in_bulk(pool, count)
  local started = pl.now()
  local tasks = {}
  for i = 1, count do tasks[i] = pool:async(nothing) end
  for i = 1, count do tasks[i]:await() end
  return (pl.now() - started) / count * 1e6
end

for workers = 1, 2 do
  local pool = pl.pool.new { workers = workers }
  local what = workers == 1 and "1 worker" or workers .. " workers"
  print(string.format("async + await of an empty task, %s: %.3f us (goal <= 1)", what, best(pool, in_turn)))
  print(string.format("the same, 100 at a time, %s: %.3f us", what, best(pool, together)))
  print(string.format("by main, one at a time, %s: %.3f us (goal <= 4)", what, best_of_main(pool, in_turn, 500)))
  print(string.format("by main, 1000 at a time, %s: %.3f us (goal <= 0.6)", what, best_of_main(pool, in_bulk, 1000)))
  pool:close()
end
