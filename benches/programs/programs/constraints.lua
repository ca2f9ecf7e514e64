-- Constraint solving twice: n queens by backtracking over three sets of lines, and sudoku by propagation of
-- candidates with search on the cell that has fewest left.
-- bench: group=programs size=12 quick=7
local n = tonumber(arg and arg[1]) or 12

local function queens(size)
  local columns, up, down, solutions = {}, {}, {}, 0
  local function place(row)
    if row > size then
      solutions = solutions + 1
      return
    end
    for c = 1, size do
      local u, d = row + c, row - c
      if not (columns[c] or up[u] or down[d]) then
        columns[c], up[u], down[d] = true, true, true
        place(row + 1)
        columns[c], up[u], down[d] = false, false, false
      end
    end
  end
  place(1)
  return solutions
end
local counts = { 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200 }
for size = 4, n do assert(queens(size) == counts[size], size) end

local peers = {}
for cell = 0, 80 do
  local r, c, set = (cell - cell % 9) / 9, cell % 9, {}
  for other = 0, 80 do
    local r2, c2 = (other - other % 9) / 9, other % 9
    local box = r - r % 3 == r2 - r2 % 3 and c - c % 3 == c2 - c2 % 3
    if other ~= cell and (r == r2 or c == c2 or box) then set[#set + 1] = other end
  end
  assert(#set == 20)
  peers[cell] = set
end

local searched = 0
local eliminate
local function fix(grid, cell, digit)
  for d = 1, 9 do
    if d ~= digit and grid[cell][d] and not eliminate(grid, cell, d) then return false end
  end
  return true
end
function eliminate(grid, cell, digit)
  local candidates = grid[cell]
  if not candidates[digit] then return true end
  candidates[digit] = nil
  local left = grid.left[cell] - 1
  grid.left[cell] = left
  if left == 0 then return false end
  if left == 1 then
    local last = next(candidates)
    for _, p in ipairs(peers[cell]) do
      if not eliminate(grid, p, last) then return false end
    end
  end
  return true
end
local function copy(grid)
  local out = { left = {} }
  for cell = 0, 80 do
    local t = {}
    for d in pairs(grid[cell]) do t[d] = true end
    out[cell] = t
    out.left[cell] = grid.left[cell]
  end
  return out
end
local function search(grid)
  searched = searched + 1
  local best, least
  for cell = 0, 80 do
    local k = grid.left[cell]
    if k > 1 and (not least or k < least) then best, least = cell, k end
  end
  if not best then return grid end
  for d = 1, 9 do
    if grid[best][d] then
      local trial = copy(grid)
      if fix(trial, best, d) then
        local done = search(trial)
        if done then return done end
      end
    end
  end
end
local function solve(clues)
  local grid = { left = {} }
  for cell = 0, 80 do
    grid[cell] = { true, true, true, true, true, true, true, true, true }
    grid.left[cell] = 9
  end
  for cell, d in pairs(clues) do
    if not fix(grid, cell, d) then return nil end
  end
  return search(grid)
end
local function check(grid)
  for cell = 0, 80 do
    local d = next(grid[cell])
    for _, p in ipairs(peers[cell]) do assert(next(grid[p]) ~= d) end
  end
end

-- Puzzles made from a valid grid by shuffling digits and dropping most cells.
local seed = 2718
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local solved = 0
for _ = 1, n * 10 do
  local digits = { 1, 2, 3, 4, 5, 6, 7, 8, 9 }
  for i = 9, 2, -1 do
    local j = random(i) + 1
    digits[i], digits[j] = digits[j], digits[i]
  end
  local clues = {}
  for cell = 0, 80 do
    local r, c = (cell - cell % 9) / 9, cell % 9
    local d = digits[(r * 3 + (r - r % 3) / 3 + c) % 9 + 1]
    if random(10) < 4 then clues[cell] = d end
  end
  local grid = solve(clues)
  check(grid)
  for cell, d in pairs(clues) do assert(grid[cell][d]) end
  solved = solved + 1
end
assert(not solve { [0] = 5, [1] = 5 })
print(string.format("constraints %d %d", queens(n), solved))
