-- Complex numbers with operators: __add, __mul, __sub, __unm, __eq, __lt; every operation makes an object.
-- bench: group=metamethods size=500000 quick=30000
local n = tonumber(arg and arg[1]) or 500000

local C = {}
C.__index = C
local function complex(re, im) return setmetatable({ re = re, im = im }, C) end
C.__add = function(a, b) return complex(a.re + b.re, a.im + b.im) end
C.__sub = function(a, b) return complex(a.re - b.re, a.im - b.im) end
C.__mul = function(a, b) return complex(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re) end
C.__unm = function(a) return complex(-a.re, -a.im) end
C.__eq = function(a, b) return a.re == b.re and a.im == b.im end
C.__lt = function(a, b) return a.re * a.re + a.im * a.im < b.re * b.re + b.im * b.im end

local z, c = complex(0, 0), complex(-0.4, 0.6)
local one, limit, smaller = complex(1, 0), complex(2, 0), 0
for _ = 1, n do
  z = z * z + c
  if not (z < limit) then z = complex(0, 0) end
  if z < one then smaller = smaller + 1 end
  assert(z - z == -(z - z))
end
print(string.format("complex_ops %d %.6f", smaller, z.re))
