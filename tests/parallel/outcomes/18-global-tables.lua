-- Plain tables in globals, named by the function itself, by a nested function, and by a function that it names.
local pl, try = require "perilune", require "lib.try"
cache = {}
function lookup(k) return (cache)[k] end
function work(k) return lookup(k) end
try(function() return pl.domain.spawn(function() return cache.x end):join() end)
try(function() return pl.domain.spawn(function() return (function() return #cache end)() end):join() end)
try(pl.domain.spawn, function() return function() cache[1] = 1 end end)
try(function() return pl.domain.spawn(function() local c = cache c[1] = 1 end):join() end)
try(function() return pl.domain.spawn(work, 1):join() end)
try(function() return pl.domain.spawn(function() return missing end):join() end)
cache = "plain"
print(pl.domain.spawn(work, 1):join())
