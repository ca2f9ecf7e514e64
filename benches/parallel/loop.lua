-- What parallel_for adds to a loop with a cheap body: one worker against a plain loop with the same call.
-- bench: group=parallel size=10000000 quick=300000 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 10000000

local ROUND <const> = 100000
local array <const> = pl.array("f64", ROUND)
local function body(i) array[i] = i * 0.5 end

local function plain()
  local started = pl.now()
  for i = 1, ROUND do body(i) end
  return pl.now() - started
end

local function parallel(pool)
  local started = pl.now()
  pool:parallel_for(1, ROUND, body)
  return pl.now() - started
end

-- Both run inside the pool, in turns; short rounds, so that some are left alone by the rest of the machine.
local function ratio(pool, rounds)
  local p, q = math.huge, math.huge
  for _ = 1, rounds do p, q = math.min(p, plain()), math.min(q, parallel(pool)) end
  return p, q
end

local pool = pl.pool.new { workers = 1 }
local p, q = pool:async(ratio, pool, n // ROUND):await()
pool:close()
assert(array[ROUND] == ROUND * 0.5)
print(string.format("plain loop, cheap body: %.2f ns", p / ROUND * 1e9))
print(string.format("parallel_for, the same body: %.2f ns", q / ROUND * 1e9))
print(string.format("parallel_for over plain loop: %.3f x (goal <= 1.05)", q / p))

-- From a program's main chunk, which waits while the pool works.
local r = math.huge
pool = pl.pool.new { workers = 1 }
for _ = 1, n // ROUND do r = math.min(r, parallel(pool)) end
pool:close()
print(string.format("parallel_for from outside the pool: %.3f x", r / p))
