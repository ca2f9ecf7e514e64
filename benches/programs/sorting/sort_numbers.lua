-- table.sort with the built-in order: integers, floats, and input that is sorted already.
-- bench: group=sorting size=350000 quick=25000
local n = tonumber(arg and arg[1]) or 350000

local seed = 77
local function random() seed = seed * 16807 % 2147483647; return seed end
local checksum = 0
local function check(t)
  for i = 2, #t do assert(t[i - 1] <= t[i]) end
  checksum = (checksum * 31 + t[1] * 2 + t[#t]) % 1000000007
end
local ints, floats, same = {}, {}, {}
local before = 0
for i = 1, n do
  ints[i] = random()
  before = before + ints[i] % 1000
  floats[i] = random() / 1024
  same[i] = random() % 16
end
table.sort(ints); check(ints)
table.sort(ints); check(ints)
table.sort(floats); check(floats)
table.sort(same); check(same)
local after = 0
for i = 1, n do after = after + ints[i] % 1000 end
assert(before == after)
print(string.format("sort_numbers %.6f", checksum))
