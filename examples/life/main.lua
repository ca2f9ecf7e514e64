-- The game of life: a barrier between generations.
--
--   perilune main.lua [SIZE] [GENERATIONS] [--workers W]
--
-- Plays GENERATIONS (40) on a board of SIZE by SIZE cells (32) whose edges meet, on a pool of W domains (2). Both boards, the
-- one that is and the one that comes, are shared arrays of bytes. `parallel_for` returns when all rows are done, so no row of a
-- generation is begun before the last row of the one before it is there.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, size <const>, generations <const> = job.arguments("life", "--workers", 2, 32, 40)
local GLIDER <const> = { { 0, 1 }, { 1, 2 }, { 2, 0 }, { 2, 1 }, { 2, 2 } }
local APART <const> = 16

-- A board with gliders as far apart as there is room, all moved down and to the right by `shift`.
local function gliders(shift)
  local board = pl.array("u8", size * size)
  for top = 0, size - APART, APART do
    for left = 0, size - APART, APART do
      for _, cell in ipairs(GLIDER) do
        local y, x = (top + cell[1] + shift) % size, (left + cell[2] + shift) % size
        board[y * size + x + 1] = 1
      end
    end
  end
  return board
end

-- The next generation of `old`, into `new`. A window of three columns moves along each row.
local function step(pool, old, new)
  pool:parallel_for(0, size - 1, function(y)
    local above, here, below = (y - 1) % size * size, y * size, (y + 1) % size * size
    local left = old[above + size] + old[here + size] + old[below + size]
    local alive = old[here + 1]
    local middle = old[above + 1] + alive + old[below + 1]
    for x = 1, size do
      local next = x % size + 1
      local coming = old[here + next]
      local right = old[above + next] + coming + old[below + next]
      local around = left + middle + right - alive
      new[here + x] = (around == 3 or around == 2 and alive == 1) and 1 or 0
      left, middle, alive = middle, right, coming
    end
  end)
end

local function play(pool, board)
  local other = pl.array("u8", size * size)
  for _ = 1, generations do
    step(pool, board, other)
    board, other = other, board
  end
  return board
end

if size < APART then job.fail("a board has at least %d cells a side, not %d", APART, size) end
local pool <const> = pl.pool.new { workers = workers, name = "rows" }
local board = job.timed(play, pool, gliders(0))
pool:close()

-- In four generations a glider is the same again, one cell further down and to the right.
if generations % 4 == 0 then
  local expected = gliders(generations // 4)
  for i = 1, size * size do
    if board[i] ~= expected[i] then job.fail("cell %d is wrong", i) end
  end
end
if size <= 40 then
  for y = 0, size - 1 do
    local row = {}
    for x = 1, size do row[x] = board[y * size + x] == 1 and "#" or "." end
    print(table.concat(row))
  end
end
print(string.format("%d cells live after %d generations", board:sum(), generations))
