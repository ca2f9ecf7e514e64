-- Appending to an array through its length, a fresh array every 1000.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local t = {}
local t0 = os.clock()
for i = 1, n do if i % 1000 == 0 then local _ = i end end
local t1 = os.clock()
for i = 1, n do
  if i % 1000 == 0 then t = {} end
  t[#t + 1] = i
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
