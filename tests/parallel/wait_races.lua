-- A timeout that strikes while a wait begins or ends: what has come by then is taken first. Every message and permit is counted.
local pl = require "perilune"

local N = 2000
local c = pl.channel.new(0)
local sender = pl.domain.spawn(function(c, n)
  local pl = require "perilune"
  for i = 1, n do
    c:send(i)
    local again = pl.now() + i % 37 * 1e-6
    while pl.now() < again do end
  end
end, c, N)
local next_one, wrong = 1, 0
local function take(v)
  if v ~= next_one then wrong = wrong + 1 end
  next_one = v + 1
end
-- Calls `f` until it says that all is done, in times that are nearly always too short for it.
local function urge(f)
  local span = 0.00001
  repeat
    local done = pl.timeout(span, f)
    span = done == nil and math.min(span * 1.5, 0.01) or 0.00001
  until done
end
urge(function()
  take(c:recv())
  return next_one > N
end)
sender:join()
print("messages lost", wrong)

-- The same of the first that comes.
local one, two = pl.channel.new(0), pl.channel.new(0)
local senders = {}
for k, ch in ipairs { one, two } do
  senders[k] = pl.domain.spawn(function(ch, n)
    for i = 1, n do ch:send(i) end
  end, ch, N // 2)
end
local expected, lost = { 1, 1 }, 0
urge(function()
  local k, v = pl.select { one, two }
  if v ~= expected[k] then lost = lost + 1 end
  expected[k] = v + 1
  return expected[1] + expected[2] == N + 2
end)
for _, s in ipairs(senders) do s:join() end
print("selected lost", lost)

-- Permits: two domains pass one to and fro.
local s = pl.semaphore(1)
local other = pl.domain.spawn(function(s, n)
  for _ = 1, n do s:acquire() s:release() end
end, s, N)
for _ = 1, 500 do
  pl.timeout(0.00002, function()
    while true do s:acquire() s:release() end
  end)
end
other:join()
print("permit", (s:acquire(10)))
