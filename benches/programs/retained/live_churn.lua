-- A large live heap that mostly stays, with a steady stream of short-lived objects beside it and a few
-- replacements in it: what generations are for.
-- bench: group=retained size=800000 quick=80000
local n = tonumber(arg and arg[1]) or 800000

local live, count = {}, n / 10
count = count - count % 1
for i = 1, count do live[i] = { id = i, next = live[i - 1], data = { i, i * 2 } } end
local sum, replaced = 0, 0
for i = 1, n do
  local short = { i, { i + 1 } }
  sum = sum + short[2][1] - short[1]
  if i % 50 == 0 then
    local at = i * 7919 % count + 1
    live[at] = { id = at, next = live[at - 1], data = { at, at * 2 } }
    replaced = replaced + 1
  end
end
assert(sum == n)
local total = 0
for i = 1, count do
  local o = live[i]
  assert(o.id == i and o.data[2] == 2 * i and (i == 1 or o.next.id == i - 1))
  total = total + o.data[1]
end
assert(total == count * (count + 1) / 2)
print(string.format("live_churn %d %d", count, replaced))
