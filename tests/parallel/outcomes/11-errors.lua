-- An error goes to whoever joins or awaits: strings with the other side's traceback, tables as tables.
local pl = require "perilune"
local shapes = require "lib.shapes"
local function fails() error("no luck") end
local ok, e = pcall(function() return pl.domain.spawn(fails):join() end)
print(ok, (e:match "^[^\n]*"), e:find("11-errors.lua:4: in function", 1, true) ~= nil, e:find("stack traceback:", 1, true) ~= nil)
ok, e = pcall(function() return pl.domain.spawn(function() error { code = 42 } end):join() end)
print(ok, type(e), e.code)
ok, e = pcall(function() return pl.domain.spawn(function() error(shapes.Shape.new(2, 2)) end):join() end)
print(ok, e:area())
ok, e = pcall(function() return pl.domain.spawn(function() error() end):join() end)
print(ok, e)
