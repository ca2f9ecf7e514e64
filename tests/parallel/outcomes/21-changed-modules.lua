-- Modules that have been written to after require: what could cross goes along, the rest is refused by name.
local pl, try = require "perilune", require "lib.try"
local shapes = require "lib.shapes"
local function unit() return shapes.describe(shapes.Shape.new(1, 2)) end
try(function() return pl.domain.spawn(unit):join() end)
shapes.unit = "inch"
try(function() return pl.domain.spawn(unit):join() end)
shapes.seen = {}
try(function() return pl.domain.spawn(unit):join() end)
shapes.seen = nil
local count = 0
local original = shapes.describe
shapes.describe = function(s) count = count + 1 return original(s) end
try(pl.domain.spawn, unit)
shapes.describe = nil
try(pl.domain.spawn, unit)
package.loaded["lib.fake"] = { x = 1 }
local fake = require "lib.fake"
try(function() return pl.domain.spawn(function() return fake.x end):join() end)
local Point = require "lib.point"
Point[1] = "odd"
try(pl.domain.spawn, print, Point.new(1, 2))
