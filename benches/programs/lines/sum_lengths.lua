-- Lines of 60 characters read with io.lines, lengths added up. The file is written first, in large pieces.
-- bench: group=lines size=2000000 quick=150000
local n = tonumber(arg and arg[1]) or 2000000

local name = os.tmpname()
local file = assert(io.open(name, "w"))
local block, expect = {}, 0
for i = 1, 1000 do
  local line = string.rep(string.char(97 + i % 26), 60 - i % 3)
  block[i] = line
  expect = expect + #line
end
block = table.concat(block, "\n") .. "\n"
for _ = 1, n / 1000 do file:write(block) end
file:close()

local sum, count = 0, 0
for line in io.lines(name) do
  sum = sum + #line
  count = count + 1
end
os.remove(name)
assert(sum == expect * count / 1000)
print(string.format("sum_lengths %d %d", count, sum))
