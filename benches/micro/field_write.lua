-- Writing a field of a record.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local t = { a = 1, b = 2, c = 3 }
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  t.b = i
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
