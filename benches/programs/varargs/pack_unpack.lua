-- Arguments packed into tables and spread again: `{...}`, unpack with ranges, a memoising wrapper, bound arguments.
-- bench: group=varargs size=1300000 quick=80000
local n = tonumber(arg and arg[1]) or 1300000
local unpack = table.unpack or unpack

local function tail(_, ...) return { ... } end
local function bind(f, ...)
  local bound, k = { ... }, select("#", ...)
  return function(x)
    bound[k + 1] = x
    return f(unpack(bound, 1, k + 1))
  end
end
local function sum5(a, b, c, d, e) return a + b * 2 + c * 3 + d * 4 + e * 5 end
local function reverse(...)
  local t, k = { ... }, select("#", ...)
  for i = 1, (k - k % 2) / 2 do t[i], t[k + 1 - i] = t[k + 1 - i], t[i] end
  return unpack(t, 1, k)
end

local f = bind(sum5, 1, 2, 3, 4)
local total = 0
for i = 1, n do
  total = total + f(i % 10)
  local t = tail(i, i % 3, i % 4)
  total = total + #t + t[1] + t[2]
  local a, b, c = reverse(1, 2, i % 6)
  total = total + a - b + c
end
local expect = 0
for i = 1, n do
  expect = expect + 30 + 5 * (i % 10) + 2 + i % 3 + i % 4 + i % 6 - 2 + 1
end
assert(total == expect)
print(string.format("pack_unpack %d", total))
