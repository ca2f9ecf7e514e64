-- A round-robin scheduler: a thousand tasks that sleep, pass messages around a ring and end at different times.
-- bench: group=coroutines size=2500 quick=150
local n = tonumber(arg and arg[1]) or 2500
local create, resume, yield, status = coroutine.create, coroutine.resume, coroutine.yield, coroutine.status

local tasks, boxes, received = {}, {}, 0
for i = 1, 1000 do boxes[i] = 0 end
for i = 1, 1000 do
  local rounds = n + i % 7
  tasks[i] = create(function(me)
    for r = 1, rounds do
      boxes[me % 1000 + 1] = boxes[me % 1000 + 1] + 1
      local tick = yield(r)
      assert(tick >= r)
      received = received + boxes[me]
      boxes[me] = 0
    end
    return "done"
  end)
end
local running, tick, switches = 1000, 0, 0
while running > 0 do
  tick = tick + 1
  for i = 1, 1000 do
    local co = tasks[i]
    if co then
      local ok, value = resume(co, tick == 1 and i or tick - 1)
      assert(ok, value)
      switches = switches + 1
      if status(co) == "dead" then
        assert(value == "done")
        tasks[i] = false
        running = running - 1
      end
    end
  end
end
local left, sent = 0, 0
for i = 1, 1000 do
  left = left + boxes[i]
  sent = sent + n + i % 7
end
assert(received + left == sent and switches == sent + 1000)
print(string.format("scheduler %d %d", switches, received))
