-- A module that is a class itself.
local Point = {}
Point.__index = Point
Point.__eq = function(a, b) return a.x == b.x and a.y == b.y end
function Point.new(x, y) return setmetatable({ x = x, y = y }, Point) end
function Point:sum() return self.x + self.y end
return Point
