-- Comparing two short strings for equality, half of them equal.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local a, b, k = 'alpha', 'beta', 0
local t0 = os.clock()
for i = 1, n do if i % 2 == 0 then k = k + 1 end end
local t1 = os.clock()
for i = 1, n do
  if (i % 2 == 0 and a or b) == a then k = k + 1 end
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
