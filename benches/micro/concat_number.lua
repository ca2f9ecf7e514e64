-- A string made of a prefix and a number: "k"..i.
-- bench: group=micro size=3000000 quick=300000
local n = tonumber(arg and arg[1]) or 3000000
local s
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  s = "k" .. i
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
