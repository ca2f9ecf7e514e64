-- Largest singular value of an infinite matrix by power iteration: float division, arrays of floats, calls.
-- bench: group=numeric size=550 quick=130
local n = tonumber(arg and arg[1]) or 550

local function a(i, j)
  local k = i + j
  return 1.0 / (k * (k + 1) * 0.5 + i + 1)
end
local function times(v)
  local out = {}
  for i = 0, n - 1 do
    local s = 0.0
    for j = 0, n - 1 do s = s + a(i, j) * v[j + 1] end
    out[i + 1] = s
  end
  return out
end
local function times_transposed(v)
  local out = {}
  for i = 0, n - 1 do
    local s = 0.0
    for j = 0, n - 1 do s = s + a(j, i) * v[j + 1] end
    out[i + 1] = s
  end
  return out
end

local u, v = {}, nil
for i = 1, n do u[i] = 1.0 end
for _ = 1, 10 do
  v = times_transposed(times(u))
  u = times_transposed(times(v))
end
local uv, vv = 0.0, 0.0
for i = 1, n do
  uv = uv + u[i] * v[i]
  vv = vv + v[i] * v[i]
end
local value = math.sqrt(uv / vv)
assert(value > 1.27 and value < 1.28)
print(string.format("spectral %.9f", value))
