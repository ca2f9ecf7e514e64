-- A protected call that succeeds.
-- bench: group=micro size=10000000 quick=1000000 goal=15
local n = tonumber(arg and arg[1]) or 10000000
local pcall = pcall
local function f() end
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  pcall(f)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
