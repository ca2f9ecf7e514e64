-- Modules are found again by name, captured or global; so are classes in them, as metatables of messages.
local pl = require "perilune"
local shapes = require "lib.shapes"
Point = require "lib.point"
local s = shapes.Shape.new(3, 4)
print(pl.domain.spawn(function(s) return s:area(), shapes.describe(s) end, s):join())
print(pl.domain.spawn(function(p) return p:sum(), p == Point.new(1, 2), getmetatable(p) == require "lib.point" end, Point.new(1, 2)):join())
local describe = shapes.describe
print(pl.domain.spawn(function(s) return describe(s) end, s):join())
local back = pl.domain.spawn(function(w) return shapes.Shape.new(w, w) end, 5):join()
print(back:area(), getmetatable(back) == shapes.Shape)
