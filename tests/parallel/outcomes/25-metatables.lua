-- Metatables: those that the receiver finds again in a module, those that go along frozen, those that come home.
local pl, try = require "perilune", require "lib.try"
local function run(f, ...) return pl.domain.spawn(f, ...):join() end
local Local = { double = function(t) return t.n * 2 end }
Local.__index = Local
try(run, function(t) return t:double(), getmetatable(t) == Local end, setmetatable({ n = 4 }, Local))
try(run, function(t) t.n = 5 return t:double() end, setmetatable({ n = 4 }, Local))
try(run, function(t) getmetatable(t).double = nil end, setmetatable({}, Local))
try(run, function(t) return getmetatable(t[1].p).__name end, { { p = setmetatable({}, { __name = "Account" }) } })
try(run, function(t) return getmetatable(t) == getmetatable("") end, setmetatable({}, getmetatable("")))
print(getmetatable(run(function() return setmetatable({}, Local) end)) == Local)
local Point = require "lib.point"
try(run, function(p) return p:sum() end, Point.new(3, 4))
Point.extra = setmetatable({}, { __mode = "k" })
try(run, function(p) return p:sum() end, Point.new(3, 4))
local Shared = pl.share { __index = { double = 2 } }
try(run, function(t) return t.double end, setmetatable({}, Shared))
local Handle = { __gc = function() end }
try(run, print, setmetatable({}, Handle))
try(run, function() return setmetatable({}, Handle) ~= nil end)
