-- A table of the library that nothing leads to any more is still the module that functions with methods are compared with.
local pl = require "perilune"
local pool = pl.pool.new { workers = 1 }
string.extra = function(s) return #s end
local function f(o) return o and o:extra() end
print(pool:async(f, nil):await())
string.extra = nil
debug.setmetatable("", nil)
string, package.loaded.string = nil, nil
for _ = 1, 3 do collectgarbage() end
local taken = {}
for i = 1, 2000 do taken[i] = { i, { i } } end
print(pool:async(f, nil):await())
pool:close()
