-- What a program has added to a standard table goes along if it could cross, also when it is used as a method.
local pl = require "perilune"
string.trim = function(s) return (s:match "^%s*(.-)%s*$") end
print(pl.domain.spawn(function(s) return "[" .. string.trim(s) .. "]" end, "  a "):join())
print(pl.domain.spawn(function(s) return "[" .. s:trim() .. "]" end, "  b "):join())
math.tau = 2 * math.pi
print(pl.domain.spawn(function() return math.tau > 6 end):join())
