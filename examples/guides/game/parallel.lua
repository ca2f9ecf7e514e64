-- A world of entities that keep away from their neighbours, ticked 60 times a second, on all cores.
--
--   perilune parallel.lua [ENTITIES] [TICKS] [live]   default: 500 entities, 10 ticks, as fast as it goes

local pl = require "perilune"
local pool = pl.pool.default()

local N <const> = tonumber(arg[1]) or 500
local TICKS <const> = tonumber(arg[2]) or 10
local DT <const> = 1 / 60
local CELL <const> = 8
local CELLS <const> = math.max(4, math.floor(math.sqrt(N / 4)))
local SIZE <const> = CELLS * CELL

-- Two worlds: one is read, the other one is written, and each tick they change roles.
local function world()
  return { x = pl.array("f64", N), y = pl.array("f64", N), vx = pl.array("f64", N), vy = pl.array("f64", N) }
end
local now, after = world(), world()
for i = 1, N do
  now.x[i], now.y[i] = (i * 7919) % SIZE + 0.25, (i * 104729) % SIZE + 0.75
  now.vx[i], now.vy[i] = (i % 13 - 6) * 2.0, (i % 7 - 3) * 2.0
end

-- Which entities are in which cell: `first[c]` to `first[c + 1] - 1` in `order`.
local first, order = pl.array("i32", CELLS * CELLS + 1), pl.array("i32", N)

local function grid(x, y)
  local count, at = {}, {}
  for c = 1, CELLS * CELLS + 1 do count[c] = 0 end
  for i = 1, N do
    local c = (y[i] // CELL * CELLS + x[i] // CELL) // 1 | 0
    at[i] = c
    count[c + 1] = count[c + 1] + 1
  end
  local sum = 1
  for c = 1, CELLS * CELLS + 1 do
    first[c] = sum
    count[c], sum = sum, sum + count[c]
  end
  for i = 1, N do
    local c = at[i] + 1
    order[count[c]] = i
    count[c] = count[c] + 1
  end
end

-- Moves entity i: reads the world `a`, writes the world `b`.
local function move(i, x, y, vx, vy, nx, ny, nvx, nvy)
  local xi, yi, fx, fy = x[i], y[i], 0.0, 0.0
  local cx, cy = xi // CELL | 0, yi // CELL | 0
  for dy = -1, 1 do
    for dx = -1, 1 do
      local c = (cy + dy) % CELLS * CELLS + (cx + dx) % CELLS + 1
      for k = first[c], first[c + 1] - 1 do
        local j = order[k]
        local rx, ry = xi - x[j], yi - y[j]
        local d = rx * rx + ry * ry
        if d > 0 and d < CELL * CELL then
          fx, fy = fx + rx / d, fy + ry / d
        end
      end
    end
  end
  local ax, ay = vx[i] + fx, vy[i] + fy
  nvx[i], nvy[i] = ax, ay
  nx[i], ny[i] = (xi + ax * DT) % SIZE, (yi + ay * DT) % SIZE
end

local function tick()
  grid(now.x, now.y)
  local x <const>, y <const>, vx <const>, vy <const> = now.x, now.y, now.vx, now.vy
  local nx <const>, ny <const>, nvx <const>, nvy <const> = after.x, after.y, after.vx, after.vy
  pool:parallel_for(1, N, function(i) move(i, x, y, vx, vy, nx, ny, nvx, nvy) end)
  now, after = after, now
end

if arg[3] == "live" then
  local ticked = pl.channel.new(nil, "ticked")
  local began = pl.now()
  local timer = pl.every(DT, function(beat)
    tick()
    ticked:send(beat)
  end)
  local beat
  for _ = 1, TICKS do beat = ticked:recv() end
  timer:cancel()
  io.stderr:write(string.format("%d ticks in %.2f s, %d left out\n", TICKS, pl.now() - began, beat - TICKS))
else
  for _ = 1, TICKS do tick() end
end
local sum = 0
for i = 1, N do sum = sum + now.x[i] * now.y[i] end
print(string.format("%d entities after %d ticks: x * y is %.6f in the mean", N, TICKS, sum / N))
