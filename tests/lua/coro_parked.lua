-- stress: no
-- 200,000 coroutines parked at once, collections going on meanwhile; each keeps its own locals and goes on where it stopped.
local N = 200000
local parked = {}
for i = 1, N do
  local co = coroutine.create(function(a)
    local held = { a }
    local b = coroutine.yield(a)
    return held[1] + b
  end)
  local ok, v = coroutine.resume(co, i)
  assert(ok and v == i)
  parked[i] = co
end
print(coroutine.status(parked[1]), coroutine.status(parked[N]))
local garbage = 0
for round = 1, 20 do
  for i = 1, 50000 do garbage = garbage + #{ i, round } end
end
collectgarbage()
-- Half of them are dropped where they are, the others run to their end.
for i = 1, N, 2 do parked[i] = false end
collectgarbage()
local sum = 0
for i = 2, N, 2 do
  local ok, v = coroutine.resume(parked[i], 1)
  assert(ok)
  sum = sum + v
end
print(garbage, sum, coroutine.status(parked[N]))
print(coroutine.resume(parked[2]))
