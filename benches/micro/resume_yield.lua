-- One resume and one yield of a coroutine that runs for ever.
-- bench: group=micro size=4000000 quick=400000 goal=20
local n = tonumber(arg and arg[1]) or 4000000
local resume, yield = coroutine.resume, coroutine.yield
local co = coroutine.create(function() while true do yield() end end)
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  resume(co)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
