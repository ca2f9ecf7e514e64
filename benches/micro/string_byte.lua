-- string.byte called as a method.
-- bench: group=micro size=5000000 quick=500000
local n = tonumber(arg and arg[1]) or 5000000
local s, x = 'abcdefghij'
local t0 = os.clock()
for i = 1, n do x = i % 10 + 1 end
local t1 = os.clock()
for i = 1, n do
  x = s:byte(i % 10 + 1)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
