-- Shared arrays are captured by reference; sizes are captured as values.
local pl = require "perilune"
local n <const> = 8
local pool = pl.pool.new { workers = 2 }
local a, b, c = pl.array("f64", n * n), pl.array("f64", n * n), pl.array("f64", n * n)
for i = 1, n * n do a[i], b[i] = i, n * n - i end
pool:parallel_for(1, n, function(i)
  for j = 1, n do
    local s = 0.0
    for k = 1, n do s = s + a[(i - 1) * n + k] * b[(k - 1) * n + j] end
    c[(i - 1) * n + j] = s
  end
end)
print(c[1], c[n * n])
pool:close()
