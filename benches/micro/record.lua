-- A record of two fields that escapes into an array of 1024.
-- bench: group=micro size=10000000 quick=1000000 goal=35
local n = tonumber(arg and arg[1]) or 10000000
local keep = {}
for i = 0, 1023 do keep[i] = false end
local t0 = os.clock()
for i = 1, n do keep[i % 1024] = true end
local t1 = os.clock()
for i = 1, n do
  keep[i % 1024] = { x = i, y = i }
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
