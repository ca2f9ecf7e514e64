-- Operands in place, immediates, constants, folding.
local a, b = ...
local r = a + b
r = a + 1
r = a - 1
r = 1 + a
r = a - 0
r = a + 40000
r = 2.5 * a
r = 10 / a
r = a // 3
r = 7 & a
r = a & 2.0
r = a << 1
r = 2 ^ 3 * (1 - 5) // 1
r = 1 // 0
r = -0.0
r = ~5 | 2
r = - -a
r = (a + b) * (a - b) % #a
return a * a + b * b - r
