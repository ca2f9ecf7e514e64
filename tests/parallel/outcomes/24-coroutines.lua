-- Coroutines stay where their stacks are.
local pl, try = require "perilune", require "lib.try"
local co = coroutine.create(function() coroutine.yield() end)
try(pl.domain.spawn, print, co)
try(pl.domain.spawn, print, 1, { jobs = { {}, { co } } })
try(pl.domain.spawn, function() return co end)
local step = coroutine.wrap(function() coroutine.yield(1) end)
try(pl.domain.spawn, step)
try(pl.domain.spawn, function() return step() end)
try(pl.domain.spawn, print, { [co] = true })
main = coroutine.running()
try(pl.domain.spawn, function() return coroutine.status(main) end)
