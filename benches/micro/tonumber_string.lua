-- tonumber of a string of six digits.
-- bench: group=micro size=5000000 quick=500000
local n = tonumber(arg and arg[1]) or 5000000
local tonumber, x = tonumber
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  x = tonumber('123456')
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
