-- Functions made by load, and functions that have been a binary chunk meanwhile, cross as any other.
local pl = require "perilune"
base = 100
local f = load "local a = ... return base + a"
print(pl.domain.spawn(f, 1):join())
local function twice(n) return n * 2 + base end
local g = load(string.dump(twice))
debug.setupvalue(g, 1, _ENV)
print(pl.domain.spawn(g, 4):join())
print(pl.domain.spawn(load(string.dump(function(...) return ... end, true)), 1, 2):join())
print(pl.domain.spawn(function(src) return load(src)() end, "return 6 * 7"):join())
