-- A world of entities that keep away from their neighbours, ticked 60 times a second. Plain Lua.
--
--   perilune sequential.lua [ENTITIES] [TICKS]        default: 500 entities, 10 ticks

local N <const> = tonumber(arg[1]) or 500
local TICKS <const> = tonumber(arg[2]) or 10
local DT <const> = 1 / 60
local CELL <const> = 8
local CELLS <const> = math.max(4, math.floor(math.sqrt(N / 4)))
local SIZE <const> = CELLS * CELL

local x, y, vx, vy = {}, {}, {}, {}
for i = 1, N do
  x[i], y[i] = (i * 7919) % SIZE + 0.25, (i * 104729) % SIZE + 0.75
  vx[i], vy[i] = (i % 13 - 6) * 2.0, (i % 7 - 3) * 2.0
end

-- Which entities are in which cell: `first[c]` to `first[c + 1] - 1` in `order`.
local function grid()
  local first, order, at = {}, {}, {}
  for c = 1, CELLS * CELLS + 1 do first[c] = 0 end
  for i = 1, N do
    local c = (y[i] // CELL * CELLS + x[i] // CELL) // 1 | 0
    at[i] = c
    first[c + 1] = first[c + 1] + 1
  end
  local sum = 1
  for c = 1, CELLS * CELLS + 1 do first[c], sum = sum, sum + first[c] end
  local next = table.move(first, 1, #first, 1, {})
  for i = 1, N do
    local c = at[i] + 1
    order[next[c]] = i
    next[c] = next[c] + 1
  end
  return first, order
end

-- Where entity i is going, seen from what is around it.
local function steer(i, first, order)
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
  return vx[i] + fx, vy[i] + fy
end

local function tick()
  local first, order = grid()
  local nx, ny, nvx, nvy = {}, {}, {}, {}
  for i = 1, N do
    local ax, ay = steer(i, first, order)
    nvx[i], nvy[i] = ax, ay
    nx[i], ny[i] = (x[i] + ax * DT) % SIZE, (y[i] + ay * DT) % SIZE
  end
  x, y, vx, vy = nx, ny, nvx, nvy
end

for _ = 1, TICKS do tick() end
local sum = 0
for i = 1, N do sum = sum + x[i] * y[i] end
print(string.format("%d entities after %d ticks: x * y is %.6f in the mean", N, TICKS, sum / N))
