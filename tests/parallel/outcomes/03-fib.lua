-- A global function that names itself and a captured pool: everything it needs travels.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
function fib_par(n)
  if n < 12 then return fib(n) end
  local a = pool:async(fib_par, n - 1)
  local b = fib_par(n - 2)
  return a:await() + b
end
print(pool:async(fib_par, 18):await(), fib(18))
pool:close()
