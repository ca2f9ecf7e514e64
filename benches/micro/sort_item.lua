-- One number in table.sort of an array of 100,000, per number and level of the ideal tree.
-- bench: group=micro size=100000 quick=20000
local n = tonumber(arg and arg[1]) or 100000
local t, seed = {}, 42
for i = 1, n do
  seed = seed * 16807 % 2147483647
  t[i] = seed
end
local t0 = os.clock()
table.sort(t)
local t1 = os.clock()
for i = 2, n do assert(t[i - 1] <= t[i]) end
print(string.format("ns=%.2f", (t1 - t0) / (n * math.log(n) / math.log(2)) * 1e9))
