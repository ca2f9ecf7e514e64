-- Captured plain tables: as upvalue, as self, behind another function, behind a closure in a table.
local pl, try = require "perilune", require "lib.try"
local config = { n = 10 }
try(pl.domain.spawn, function() return config.n end)
local Worker = {}
Worker.__index = Worker
function Worker:start() return pl.domain.spawn(function() return self.n end) end
try(Worker.start, setmetatable({ n = 1 }, Worker))
local function helper() return config.n + 1 end
local function outer() return helper() end
try(pl.domain.spawn, outer)
try(pl.domain.spawn, print, { list = { 1, 2, outer } })
local shared = pl.share(config)
print(pl.domain.spawn(function() return shared.n end):join())
print(pl.domain.spawn(function(c) return c.n end, config):join())
local n = config.n
print(pl.domain.spawn(function() return n end):join())
