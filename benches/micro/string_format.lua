-- string.format of an integer and a string.
-- bench: group=micro size=2000000 quick=200000
local n = tonumber(arg and arg[1]) or 2000000
local format, x = string.format
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  x = format('%d:%s', i, 'abc')
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
