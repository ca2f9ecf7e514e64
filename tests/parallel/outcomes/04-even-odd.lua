-- Mutually recursive locals: the one assignment to a bare `local x` is its initialiser.
local pl = require "perilune"
local even, odd
function even(n) if n == 0 then return true end return odd(n - 1) end
odd = function(n) if n == 0 then return false end return even(n - 1) end
print(pl.domain.spawn(even, 10):join(), pl.domain.spawn(odd, 10):join())
local fact
fact = function(n) return n == 0 and 1 or n * fact(n - 1) end
print(pl.domain.spawn(fact, 10):join())
