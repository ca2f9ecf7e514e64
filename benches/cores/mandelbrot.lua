-- The Mandelbrot set, row by row.
-- bench: group=cores size=700 quick=40
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 700
local LIMIT = 100

local function row(y)
  local inside, steps = 0, 0
  local ci = 2 * y / n - 1
  for x = 0, n - 1 do
    local cr = 3 * x / n - 2
    local zr, zi, i = 0.0, 0.0, 0
    while i < LIMIT and zr * zr + zi * zi < 4 do
      zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
      i = i + 1
    end
    steps = steps + i
    if i == LIMIT then inside = inside + 1 end
  end
  return { inside, steps }
end

local function plus(a, b) return { a[1] + b[1], a[2] + b[2] } end

local sum = { 0, 0 }
if pool then
  sum = pool:parallel_reduce(0, n - 1, sum, row, plus)
else
  for y = 0, n - 1 do sum = plus(sum, row(y)) end
end
local result = string.format("%d of %d points are inside, %d steps", sum[1], n * n, sum[2])
-- What the reference implementation prints.
local known = {
  ["40"] = "422 of 1600 points are inside, 48906 steps",
  ["700"] = "126469 of 490000 points are inside, 14863733 steps",
}
local expected = known[arg and arg[1] or "700"]
assert(not expected or result == expected, result)
print(result)
