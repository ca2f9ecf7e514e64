-- Comparing two strings with a common prefix by order.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local a, b, k = 'prefix-alpha', 'prefix-beta', 0
local t0 = os.clock()
for i = 1, n do k = k + 1 end
local t1 = os.clock()
for i = 1, n do
  if a < b then k = k + 1 end
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
