-- A coroutine made, resumed to its yield, and resumed to its end.
-- bench: group=micro size=1000000 quick=100000 goal=120
local n = tonumber(arg and arg[1]) or 1000000
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield
local function body() yield() end
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  local co = create(body)
  resume(co)
  resume(co)
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
