-- Code of a task assigns no global, by whatever way; modules that it requires have the globals of their domain.
local pl, try = require "perilune", require "lib.try"
local pool = pl.pool.new { workers = 1 }
local function task(f, ...) try(function(...) return pool:async(...):await() end, f, ...) end
travelled = 5

task(function() _G.x = 1 end)
task(function() _ENV.x = 1 end)
task(function() rawset(_G, "x", 1) end)
task(function() rawset(_ENV, "x", 1) end)
task(function() _G["x" .. 1] = 1 end)
task(function() _G[1] = true end)
task(function() rawset(_G, 2, true) end)
task(function() table.insert(_G, "x") end)
task(function() load("x = 1", "=loaded")() end)
task(function() local function f(_ENV) x = 1 end f(_G) end)
task(function() _G.travelled = travelled + 1 end)
local G = _G
task(function() G.x = 1 end)
task(function(g) g.x = 1 end, _G)
task(rawset, _G, "x", 1)
task(setmetatable, _G, {})
task(function() setmetatable(_G, nil) end)
task(function() coroutine.wrap(function() _G.x = 1 end)() end)
task(function(pool) pool:async(function() _G.x = 1 end):await() end, pool)
task(function(pool, g) pool:async(function(g) g.x = 1 end, g):await() end, pool, _G)
alias = _G
task(function() alias.x = 1 end)
task(function() package.loaded._G.x = 1 end)
task(function() require("_G").x = 1 end)
task(function() rawset(package.loaded._G, "x", 1) end)
task(function() for k in pairs(_G) do if k == "print" then _G[k] = nil end end end)
task(function() return x, x1, _G.x, G == _G, _G == _ENV, alias == _G end)

-- Reading is as it was.
task(function()
  local n, has = 0, {}
  for k, v in pairs(_G) do n, has[k] = n + 1, v end
  return _G.print == print, _G.travelled, travelled, load("return travelled")(), has.print == print, has.travelled, n > 20
end)
task(function()
  local G, n = package.loaded._G, 0
  for k in pairs(G) do n = n + 1 end
  return G.print == print, G.x, G._G == G, n > 20
end)
-- Back home it is home's.
print(pool:async(function() return package.loaded._G end):await() == _G)
print(pool:async(function() return _G end):await() == _G)
print(pool:async(function() return { _G } end):await()[1] == _G)

-- Modules.
task(function() return require("lib.defines").loads() end)
task(function()
  local M = require "lib.defines"
  return M.loads(), M.count(), M.count(), M.set("own", 7), M.get "own", own
end)
task(function() return require("lib.defines").count(), own, loads end)
task(function() own = 8 end)
print(x, own, loads, travelled)
-- A spawned domain has its own globals.
print(pl.domain.spawn(function()
  _G.x = 1
  rawset(_G, "y", 2)
  load("z = 3")()
  return x, y, z, _G == _ENV, travelled
end):join())
print(x, y, z)
