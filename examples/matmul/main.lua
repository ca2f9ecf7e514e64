-- Matrix multiplication: a loop over rows, each row on whatever domain has time for it.
--
--   perilune main.lua [N] [--workers W]
--
-- Multiplies two matrices of N by N numbers (64) on a pool of W domains (2). The matrices are shared arrays: all domains
-- read a and b and write their rows of c in place, nothing is copied. Rows do not overlap, so there is nothing to lock.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local workers <const>, n <const> = job.arguments("matmul", "--workers", 2, 64)

-- Small whole numbers: every sum below is exact, so the check is, too.
local function matrix(seed)
  local m = pl.array("f64", n * n)
  for i = 1, n * n do m[i] = (i * seed + i // n) % 10 end
  return m
end

-- a * b, both row by row from index 1.
local function multiply(pool, a, b)
  local c = pl.array("f64", n * n)
  pool:parallel_for(0, n - 1, function(row)
    local base = row * n
    for column = 1, n do
      local sum, at = 0.0, column
      for k = base + 1, base + n do
        sum = sum + a[k] * b[at]
        at = at + n
      end
      c[base + column] = sum
    end
  end)
  return c
end

-- m * v for a list v.
local function apply(m, v)
  local result = {}
  for row = 0, n - 1 do
    local sum = 0.0
    for column = 1, n do sum = sum + m[row * n + column] * v[column] end
    result[row + 1] = sum
  end
  return result
end

local pool <const> = pl.pool.new { workers = workers, name = "rows" }
local a <const>, b <const> = matrix(7), matrix(3)
local c = job.timed(multiply, pool, a, b)
pool:close()

-- (a b) v = a (b v): one wrong element would show, and it takes n * n steps instead of n * n * n.
local v = {}
for i = 1, n do v[i] = i % 17 + 1 end
local left, right = apply(c, v), apply(a, apply(b, v))
for row = 1, n do
  if left[row] ~= right[row] then job.fail("row %d is wrong", row) end
end
print(string.format("%d x %d: corners %g %g, sum %.0f", n, n, c[1], c[n * n], c:sum()))
