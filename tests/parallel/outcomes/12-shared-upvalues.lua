-- Functions that cross together stay joined: one function captured twice is one function there.
local pl = require "perilune"
local function helper(x) return x + 1 end
local function f(x) return helper(x), helper end
local function g(x) return helper(x) * 2, helper end
print(pl.domain.spawn(function(f, g)
  local a, h1 = f(1)
  local b, h2 = g(1)
  return a, b, h1 == h2, f == g
end, f, g):join())
print(pl.domain.spawn(function(t) return t.f == t.g, t.list[1] == t.f end, { f = f, g = f, list = { f } }):join())
