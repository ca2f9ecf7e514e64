-- Binary trees made and walked at many depths, with one long-lived tree: allocation and collection above all.
-- bench: group=allocation size=16 quick=12 large=18
local depth = tonumber(arg and arg[1]) or 16

local function make(d)
  if d == 0 then return {} end
  return { make(d - 1), make(d - 1) }
end
local function count(t)
  if t[1] then return 1 + count(t[1]) + count(t[2]) end
  return 1
end

local power = { [0] = 1 }
for i = 1, depth + 8 do power[i] = power[i - 1] * 2 end
assert(count(make(depth + 1)) == power[depth + 2] - 1)
local long = make(depth)
local checksum = 0
for d = 4, depth, 2 do
  local rounds = power[depth - d + 4]
  local nodes = 0
  for _ = 1, rounds do nodes = nodes + count(make(d)) end
  assert(nodes == rounds * (power[d + 1] - 1))
  checksum = checksum + nodes
end
assert(count(long) == power[depth + 1] - 1)
print(string.format("binary_trees %d", checksum))
