-- A module with a class, a constructor and a counter of its own.
local Shape = {}
Shape.__index = Shape
function Shape.new(w, h) return setmetatable({ w = w, h = h }, Shape) end
function Shape:area() return self.w * self.h end

local M = { Shape = Shape, unit = "cm" }
function M.describe(s) return s.w .. "x" .. s.h .. " " .. M.unit end
return M
