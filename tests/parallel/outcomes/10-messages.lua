-- A message keeps its shape: sharing, cycles, kinds of keys and numbers, holes.
local pl = require "perilune"
local c = pl.channel.new()
local inner = { "x" }
local t = { a = inner, b = inner, [1] = 1, [2] = 2.5, [4] = "hole", [1.5] = true, [true] = 0, [inner] = "key", nan = 0 / 0, minus = -0.0 }
t.self = t
c:send(t)
local r = c:recv()
print(r ~= t, r.a == r.b, r.self == r, r[r.a], r.a[1])
print(r[1], r[2], r[3], r[4], r[1.5], r[true], r.nan ~= r.nan, 1 / r.minus)
print(math.type(r[1]), math.type(r[2]))
c:send("a", nil, 3, nil)
print(select("#", c:recv()))
