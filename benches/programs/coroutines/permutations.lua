-- Yields from deep inside a recursion: all permutations of a list, and an in-order walk of a tree whose every
-- level is a coroutine of its own.
-- bench: group=coroutines size=10 quick=8
local n = tonumber(arg and arg[1]) or 10
local wrap, yield = coroutine.wrap, coroutine.yield

local function permute(a, k)
  if k == 0 then return yield(a) end
  for i = 1, k do
    a[k], a[i] = a[i], a[k]
    permute(a, k - 1)
    a[k], a[i] = a[i], a[k]
  end
end
local list, count, checksum = {}, 0, 0
for i = 1, n do list[i] = i end
for p in wrap(function() permute(list, n) end) do
  count = count + 1
  checksum = (checksum * 3 + p[1] * n + p[n]) % 1000000007
end
local factorial = 1
for i = 2, n do factorial = factorial * i end
assert(count == factorial)

local function build(lo, hi)
  if lo > hi then return nil end
  local mid = (lo + hi - (lo + hi) % 2) / 2
  return { left = build(lo, mid - 1), key = mid, right = build(mid + 1, hi) }
end
local function walk(t)
  return wrap(function()
    if t.left then for k in walk(t.left) do yield(k) end end
    yield(t.key)
    if t.right then for k in walk(t.right) do yield(k) end end
  end)
end
local size, expect = 300 * n, 1
for k in walk(build(1, size)) do
  assert(k == expect)
  expect = expect + 1
end
assert(expect == size + 1)
print(string.format("permutations %d %d", count, checksum))
