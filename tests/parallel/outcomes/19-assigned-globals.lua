-- Tasks may not assign globals, those that came along included; a spawned domain has its own.
local pl, try = require "perilune", require "lib.try"
local pool = pl.pool.new { workers = 1 }
total = 5
local function add(n) total = total + n return total end
local function new() fresh = 1 end
try(function() return pool:async(add, 1):await() end)
try(function() return pool:async(new):await() end)
try(function() return pool:async(function() return total end):await() end)
print(pl.domain.spawn(function() add(1) new() return total, fresh, _G.total end):join())
print(total, fresh)
pool:close()
