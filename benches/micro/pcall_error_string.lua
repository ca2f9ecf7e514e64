-- A protected call whose function raises a string, position added.
-- bench: group=micro size=2000000 quick=200000 goal=250
local n = tonumber(arg and arg[1]) or 2000000
local pcall, error = pcall, error
local function f() error('no') end
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  pcall(f)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
