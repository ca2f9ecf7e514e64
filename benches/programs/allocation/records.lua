-- Records and small arrays that live for a short while in a ring, replaced one after the other.
-- bench: group=allocation size=1200000 quick=80000
local n = tonumber(arg and arg[1]) or 1200000

local ring, sum = {}, 0
for i = 0, 4095 do ring[i] = false end
for i = 1, n do
  local at = i % 4096
  local old = ring[at]
  if old then
    assert(old.id == i - 4096)
    sum = sum + old.size + #old.tags
  end
  ring[at] = { id = i, size = i % 10, tags = { i, i + 1 }, flag = i % 2 == 0 }
end
local expect = 0
for i = 1, n - 4096 do expect = expect + i % 10 + 2 end
assert(n < 4096 or sum == expect)
print(string.format("records %d", sum))
