-- Float arithmetic in local variables: points of the Mandelbrot set on an n by n grid.
-- bench: group=numeric size=900 quick=220
local n = tonumber(arg and arg[1]) or 900

local inside, steps = 0, 0
for row = 0, n - 1 do
  local ci = 2.0 * row / n - 1.0
  for col = 0, n - 1 do
    local cr = 2.0 * col / n - 1.5
    local zr, zi, k = 0.0, 0.0, 0
    while k < 50 do
      local r2, i2 = zr * zr, zi * zi
      if r2 + i2 > 4.0 then break end
      zi = 2.0 * zr * zi + ci
      zr = r2 - i2 + cr
      k = k + 1
    end
    steps = steps + k
    if k == 50 then inside = inside + 1 end
  end
end
local result = string.format("mandelbrot %d %d", inside, steps)
local known = { [220] = "mandelbrot 19234 1181095", [900] = "mandelbrot 321907 19770646" }
assert(not known[n] or result == known[n], result)
print(result)
