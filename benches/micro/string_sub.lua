-- string.sub of three characters.
-- bench: group=micro size=3000000 quick=300000
local n = tonumber(arg and arg[1]) or 3000000
local s, x = 'abcdefghij'
local sub = string.sub
local t0 = os.clock()
for i = 1, n do x = i % 7 + 1 end
local t1 = os.clock()
for i = 1, n do
  x = sub(s, i % 7 + 1, i % 7 + 3)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
