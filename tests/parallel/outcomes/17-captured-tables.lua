-- Captured plain tables: as upvalue, as self, behind another function, behind a closure in a table. They are frozen there.
local pl, try = require "perilune", require "lib.try"
local function run(f, ...) return pl.domain.spawn(f, ...):join() end
local config = { n = 10 }
try(run, function() return config.n end)
local Worker = {}
Worker.__index = Worker
function Worker:start() return run(function() return self.n, getmetatable(self) == Worker end) end
try(Worker.start, setmetatable({ n = 1 }, Worker))
local function helper() return config.n + 1 end
local function outer() return helper() end
try(run, outer)
try(run, function(t) return t.list[3]() end, { list = { 1, 2, outer } })
try(run, function() config.n = 1 end)
local function reset() config.n = 0 end
try(run, function() return reset() end)
try(run, function() local c = config c.n = 1 end)
try(run, function() return table.sort(config), rawset(config, 1, 1) end)
local counter = { n = 0, add = function(t) t.n = t.n + 1 end }
try(run, function(name) counter[name](counter) end, "add")
print(config.n, counter.n)
local shared = pl.share(config)
print(run(function() return shared.n end))
print(run(function(c) c.n = c.n + 1 return c.n end, config), config.n)
