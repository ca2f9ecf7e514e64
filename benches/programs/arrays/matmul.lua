-- Matrix product over rows of floats; trace(AB) must be trace(BA).
-- bench: group=arrays size=300 quick=120
local n = tonumber(arg and arg[1]) or 300

local function matrix(f)
  local m = {}
  for i = 1, n do
    local row = {}
    for j = 1, n do row[j] = f(i, j) end
    m[i] = row
  end
  return m
end
local function transpose(m) return matrix(function(i, j) return m[j][i] end) end
local function product(a, b)
  local bt, c = transpose(b), {}
  for i = 1, n do
    local ai, ci = a[i], {}
    for j = 1, n do
      local bj, s = bt[j], 0.0
      for k = 1, n do s = s + ai[k] * bj[k] end
      ci[j] = s
    end
    c[i] = ci
  end
  return c
end
local function trace(m)
  local s = 0
  for i = 1, n do s = s + m[i][i] end
  return s
end

local a = matrix(function(i, j) return (i - j) * (i + j - 2) / n end)
local b = matrix(function(i, j) return (i * j % 11) / 4 end)
local t1, t2 = trace(product(a, b)), trace(product(b, a))
assert(math.abs(t1 - t2) < 1e-9 * math.abs(t1) + 1e-6)
print(string.format("matmul %.6f", t1))
