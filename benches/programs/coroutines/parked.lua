-- Many coroutines alive at once while garbage is made: each is resumed now and then, and its locals must survive.
-- bench: group=coroutines size=60000 quick=6000
local n = tonumber(arg and arg[1]) or 60000
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield

local function body(id)
  local mine = { id = id, log = {} }
  local step = 0
  while true do
    local x = yield(mine)
    step = step + 1
    mine.log[step % 4 + 1] = { x }
    mine.total = (mine.total or 0) + x
  end
end
local parked = {}
for i = 1, n do
  parked[i] = create(body)
  local ok, mine = resume(parked[i], i)
  assert(ok and mine.id == i)
end
local sum = 0
for round = 1, 5 do
  for i = round, n, round do
    local garbage = { i, { round } }
    local _, mine = resume(parked[i], i % 10)
    assert(mine.id == i and garbage[1] == i)
    sum = sum + mine.total
  end
end
local result = string.format("parked %d", sum)
local known = { [6000] = "parked 100000", [60000] = "parked 1000000" }
assert(not known[n] or result == known[n], result)
print(result)
