-- `require` inside tasks finds what it would find at home: by paths, preload and searchers as of the crossing.
local pl, try = require "perilune", require "lib.try"
local pool = pl.pool.new { workers = 4 }

-- A path that the main program sets: in all tasks, whichever worker has them.
package.path = "./lib/?.lua;" .. package.path
package.cpath = "./nowhere/?.so"
local function sum() return require("point").new(1, 2):sum() end
local tasks = {}
for i = 1, 200 do tasks[i] = pool:async(sum) end
local total = 0
for i = 1, 200 do total = total + tasks[i]:await() end
print(total, package.loaded.point)
print(pool:async(function() return package.cpath end):await())
print(pl.domain.spawn(function() return package.cpath, (require "point").new(3, 4):sum() end):join())
pool:parallel_for(1, 50, function() assert(require("point")) end)
-- As of each crossing.
package.path = "./?.lua"
try(function() return pool:async(function() return package.path, pcall(require, "shapes") end):await() end)

-- Functions in package.preload, with what they capture and name.
local base = 40
local function add(n) return base + n end
bonus = 2
package.preload.made = function(name, data)
  made_by = name
  return { name = name, data = data, value = add(bonus), twice = require "doubled" }
end
package.preload.doubled = function() return function(x) return 2 * x end end
try(function()
  return pool:async(function()
    local m = require "made"
    return m.name, m.data, m.value, m.twice(4), m == require "made", require "made".name
  end):await()
end)
print(pool:parallel_reduce(1, 100, 0, function() return require("made").value end, function(a, b) return a + b end))
-- In tasks of tasks too.
try(function()
  return pool:async(function(pool)
    return pool:async(function() return require("made").value end):await()
  end, pool):await()
end)
-- One that may not cross is named when it is asked for.
local cache = 0
package.preload.cached = function() cache = cache + 1 return cache end
try(function() return pool:async(function() return require("made").value end):await() end)
try(function() return pool:async(function() return require "cached" end):await() end)
package.preload.cached = nil
try(function() return pool:async(function() return package.preload.cached end):await() end)

-- Searchers.
table.insert(package.searchers, 2, function(name)
  if name:match "^virtual%." then return function(n, extra) return { n, extra } end, "extra" end
  return "no virtual module '" .. name .. "'"
end)
try(function()
  return pool:async(function()
    local v = require "virtual.one"
    return v[1], v[2], #package.searchers, require("lib.point").new(1, 1):sum()
  end):await()
end)
table.insert(package.searchers, 3, function() cache = cache + 1 end)
try(function() return pool:async(function() return require("virtual.two")[1] end):await() end)
try(function()
  return pool:async(function()
    local ok, e = pcall(require, "nonesuch")
    return e:match "no virtual module 'nonesuch'", e:match "[^\n]*did not come along[^\n]*"
  end):await()
end)
table.remove(package.searchers, 3)
table.remove(package.searchers, 2)
try(function() return pool:async(function() return #package.searchers, pcall(require, "virtual.three") end):await() end)
