-- Fast Fourier transform in place over two arrays of floats, forth and back: the input must come back.
-- bench: group=arrays size=18 quick=14
local bits = tonumber(arg and arg[1]) or 18
local n = 1
for _ = 1, bits do n = n * 2 end
local sin, cos, pi = math.sin, math.cos, math.pi

local function fft(re, im, sign)
  local j = 0
  for i = 0, n - 2 do
    if i < j then
      re[i + 1], re[j + 1] = re[j + 1], re[i + 1]
      im[i + 1], im[j + 1] = im[j + 1], im[i + 1]
    end
    local m = n / 2
    while m >= 1 and j >= m do j = j - m; m = m / 2 end
    j = j + m
  end
  local len = 2
  while len <= n do
    local angle = sign * 2 * pi / len
    local wr, wi, half = cos(angle), sin(angle), len / 2
    for start = 1, n, len do
      local cr, ci = 1.0, 0.0
      for k = start, start + half - 1 do
        local q = k + half
        local xr = re[q] * cr - im[q] * ci
        local xi = re[q] * ci + im[q] * cr
        re[q], im[q] = re[k] - xr, im[k] - xi
        re[k], im[k] = re[k] + xr, im[k] + xi
        cr, ci = cr * wr - ci * wi, cr * wi + ci * wr
      end
    end
    len = len * 2
  end
end

local re, im = {}, {}
for i = 1, n do re[i] = (i * 37 % 101) / 101; im[i] = 0.0 end
fft(re, im, 1)
local power = 0.0
for i = 1, n do power = power + re[i] * re[i] + im[i] * im[i] end
fft(re, im, -1)
local worst = 0.0
for i = 1, n do
  local d = math.abs(re[i] / n - (i * 37 % 101) / 101)
  if d > worst then worst = d end
end
assert(worst < 1e-8, worst)
print(string.format("fft %.4f", power / n))
