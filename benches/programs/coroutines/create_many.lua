-- Short-lived coroutines: made, resumed twice, dropped; some end by an error, some are dropped while parked.
-- bench: group=coroutines size=1200000 quick=80000
local n = tonumber(arg and arg[1]) or 1200000
local create, resume, yield, status = coroutine.create, coroutine.resume, coroutine.yield, coroutine.status

local failure = {}
local function body(i)
  local j = yield(i + 1)
  if j % 10 == 0 then error(failure) end
  return i + j
end
local sum, errors, parked = 0, 0, 0
for i = 1, n do
  local co = create(body)
  local _, first = resume(co, i)
  assert(first == i + 1)
  if i % 16 == 0 then
    assert(status(co) == "suspended")
    parked = parked + 1
  else
    local ok, value = resume(co, i % 20)
    if ok then
      sum = sum + value - i
    else
      assert(value == failure)
      errors = errors + 1
    end
    assert(status(co) == "dead")
  end
end
local expect, failed = 0, 0
for i = 1, n do
  if i % 16 ~= 0 then
    if i % 20 % 10 == 0 then failed = failed + 1 else expect = expect + i % 20 end
  end
end
assert(sum == expect and errors == failed)
print(string.format("create_many %d %d %d", sum, errors, parked))
