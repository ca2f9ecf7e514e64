-- Native functions and what belongs to the library: found again, but not what a call has made.
local pl, try = require "perilune", require "lib.try"
local format, type, out, req = string.format, type, io.stdout, require
try(function() return pl.domain.spawn(function() return format("%d", 3), type(1), out == io.stdout, req == require end):join() end)
try(function() return pl.domain.spawn(string.upper, "x"):join() end)
try(function() return pl.domain.spawn(function(t) return t.f("y"), t.lib == math end, { f = string.upper, lib = math }):join() end)
local words = ("a b"):gmatch "%a"
try(pl.domain.spawn, function() return words() end)
try(pl.domain.spawn, print, words)
