-- Loops that fail: the caller gets the error, and nobody else is told of it.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }

local list = {}
for i = 1, 100 do list[i] = i end
local function fail() error("broken", 0) end
local function try(what, ...)
  local ok, e = pcall(pool[what], pool, ...)
  print(what, ok, (tostring(e):match "^[^\n]*"))
end

try("map", list, fail)
try("parallel_scan", list, fail)
-- Fails between blocks only: where the sum is more than the last element.
try("parallel_scan", list, function(a, b)
  if a > 1000 and b > 20 then fail() end
  return a + b
end, { chunk = 10 })
try("parallel_reduce", 1, 100, 0, function(i) return i end, fail)
try("parallel_for", 1, 100, fail)
try("parallel_find", 1, 100, fail)
try("sort", list, fail)
pool:close()
collectgarbage()
