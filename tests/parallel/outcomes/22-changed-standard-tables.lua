-- Standard tables: fields that were replaced by what could cross, by what could not, and removed.
local pl, try = require "perilune", require "lib.try"
local rep = string.rep
local function f() return string.rep("x", 3) end
string.rep = function(s, n) return "rep " .. s end
try(function() return pl.domain.spawn(f):join() end)
string.rep = nil
try(pl.domain.spawn, f)
string.rep = rep
try(function() return pl.domain.spawn(f):join() end)
math.cache = {}
try(function() return pl.domain.spawn(function() return math.sqrt(4) end):join() end)
try(function() return pl.domain.spawn(f):join() end)
