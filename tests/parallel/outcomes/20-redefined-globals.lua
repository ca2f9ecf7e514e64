-- A function sees its globals as they were when it crossed; crossing again sees the new ones.
local pl = require "perilune"
function name() return "first" end
local function f() return name(), tostring(1) end
print(pl.domain.spawn(f):join())
local d = pl.domain.spawn(f)
function name() return "second" end
print(d:join())
print(pl.domain.spawn(f):join())
local original = tostring
function tostring(v) return "<" .. original(v) .. ">" end
print(pl.domain.spawn(f):join())
tostring = original
name = nil
print(pl.domain.spawn(function() return name, tostring(1) end):join())
