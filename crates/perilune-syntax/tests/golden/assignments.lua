-- Targets left to right, values, stores right to left; conflicts are copied.
local a, i = {}, 1
i, a[i] = i + 1, 20
a.x, a = 1, nil
a[1], a[70000], a[-1], a[2.0] = 1, 2, 3
local x, y, z = f()
local p, q = 1, 2, f()
x, y = y, x
x = function() x, y.z = 1, nil end
_ENV.g, h = a.b.c, ...
function a.b.c:d() return self end
local function r() return r end
