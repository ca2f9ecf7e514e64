-- A local function runs on a domain of its own; arguments go there, results come back.
local pl = require "perilune"
local function square(n) return n * n end
local d = pl.domain.spawn(square, 5)
local y = square(10)
print("x", d:join())
print("y", y)
print(pl.domain.spawn(function(...) return select("#", ...), ... end, 1, nil, "z", nil):join())
