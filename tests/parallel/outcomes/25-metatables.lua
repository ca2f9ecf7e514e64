-- Metatables that the receiver could not find again.
local pl, try = require "perilune", require "lib.try"
local Local = { __index = {} }
try(pl.domain.spawn, print, setmetatable({}, Local))
try(pl.domain.spawn, print, "x", { { p = setmetatable({}, { __name = "Account" }) } })
try(pl.domain.spawn, print, setmetatable({}, getmetatable(""))) -- the standard metatable of strings
local Point = require "lib.point"
try(function() return pl.domain.spawn(function(p) return p:sum() end, Point.new(3, 4)):join() end)
Point.extra = setmetatable({}, { __mode = "k" })
try(pl.domain.spawn, print, Point.new(3, 4))
local Shared = pl.share { __index = { double = 2 } }
try(function() return pl.domain.spawn(function(t) return t.double end, setmetatable({}, Shared)):join() end)
