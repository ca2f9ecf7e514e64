-- Pauses with many coroutines parked: run with PERILUNE_GC_STATS=1 and read `minor_pauses`.
local count = tonumber(arg and arg[1]) or 200000
local parked = {}
for i = 1, count do
  local co = coroutine.create(function(a) local x = { a } local b = coroutine.yield(x) return b + x[1] end)
  coroutine.resume(co, i)
  parked[i] = co
end
-- Short-lived garbage, and now and then a coroutine that runs on.
local sum = 0
for i = 1, 20000000 do
  local t = { i }
  sum = sum + t[1] % 7
  if i % 1000 == 0 then
    local at = i // 1000 % count + 1
    local _, r = coroutine.resume(parked[at], 1)
    assert(r == at + 1)
    parked[at] = coroutine.create(function(a) local x = { a } local b = coroutine.yield(x) return b + x[1] end)
    coroutine.resume(parked[at], at)
  end
end
print(sum)
