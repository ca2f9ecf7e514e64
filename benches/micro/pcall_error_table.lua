-- A protected call whose function raises a table.
-- bench: group=micro size=4000000 quick=400000 goal=110
local n = tonumber(arg and arg[1]) or 4000000
local pcall, error, e = pcall, error, {}
local function f() error(e) end
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  pcall(f)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
