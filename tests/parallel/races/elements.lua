-- Arrays in two dimensions, records, strings: each way to an element is seen.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }

local m = pl.array("i32", 2, 2)
pool:parallel_for(1, 20, function() m:put(1, 2, m:at(1, 2) + 1) end)
-- race: 6 6

local p = pl.array({ n = "i64", s = "string" }, 4)
pool:parallel_for(1, 20, function(i) p[1].n = i end)
-- race: 10 10

pool:parallel_for(1, 20, function(i) p[2].s = "of " .. i end)
-- race: 13 13

local s = pl.array("string", 2)
local d = pl.domain.spawn(function() s[1] = "over there" end)
local here = s[1]
d:join()
-- race: 17 18

-- Neighbours, and what is ordered, are no race.
pool:parallel_for(1, 4, function(i)
  p[i].n = i
  p[i].s = "of " .. p[i].n
  m:put((i + 1) // 2, i % 2 + 1, i)
end)
assert(p.n:sum() == 10 and p[4].s == "of 4" and m:sum() == 10 and #here >= 0)
s[1] = "after"
