-- One item of a traversal of an array with ipairs.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local t = {}
for i = 1, 1000 do t[i] = i end
local rounds = n / 1000
local sum = 0
local t0 = os.clock()
for _ = 1, rounds do
  for _, v in ipairs(t) do sum = sum + v end
end
local t1 = os.clock()
assert(sum == rounds * 500500)
print(string.format("ns=%.2f", (t1 - t0) / n * 1e9))
