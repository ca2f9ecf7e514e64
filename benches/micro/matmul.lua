-- One multiply-add of a matrix product over rows of floats.
-- bench: group=micro size=300 quick=100
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
local a = matrix(function(i, j) return (i - j) / n end)
local b = matrix(function(i, j) return (i + j) / n end)
local t0 = os.clock()
local c = {}
for i = 1, n do
  local ai, ci = a[i], {}
  for j = 1, n do
    local bj, s = b[j], 0.0
    for k = 1, n do s = s + ai[k] * bj[k] end
    ci[j] = s
  end
  c[i] = ci
end
local t = os.clock() - t0
assert(c[n][n])
print(string.format("ns=%.2f", t / (n * n * n) * 1e9))
