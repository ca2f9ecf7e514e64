-- math.floor of a float.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local floor, x = math.floor
local t0 = os.clock()
for i = 1, n do x = i * 0.5 end
local t1 = os.clock()
for i = 1, n do
  x = floor(i * 0.5)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
