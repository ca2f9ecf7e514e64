-- Registers that closures refer to at some time, and are anybody's at others.
local total = 0
for i = 1, 300 do total = total + i % 7 end            -- its registers are those of what follows
for x = 1.5, 90.5 do total = total + x end
local counter = 0
local function count(by) counter = counter + by return counter end
for i = 1, 300 do count(i) counter = counter + 1 end   -- captured before
print(total, counter)

do
  local inner = 5
  local function get() return inner end
  for i = 1, 200 do inner = inner + i assert(get() == inner) end
  print(inner)
end
for i = 1, 200 do local a, b = i, i * 2 total = total + a * b end   -- what was `inner` is a number here
print(total)

-- captured in the middle of a loop's body, by a closure of each round
local kept = {}
for i = 1, 200 do
  local n = i * 2
  n = n + 1
  if i % 50 == 0 then kept[#kept + 1] = function(by) n = n + by return n end end
  n = n + 1
end
for k = 1, #kept do io.write(kept[k](1), " ", kept[k](k), " ") end print()

-- a loop by goto, whose variable is not ended before it is taken again
do
  local i, f = 0, nil
  ::again::
  local fresh = i
  local function more() fresh = fresh + 1 return fresh end
  i = i + 1
  if i % 3 == 0 then more() end
  fresh = fresh + 1
  if i < 300 then f = f or more goto again end
  print(i, fresh, f())
end

-- while and repeat, where the condition sees the captured variable
do
  local n, log = 0, {}
  while n < 200 do
    local was = n
    local function step() n = n + 1 return was end
    if step() % 67 == 0 then log[#log + 1] = step end
  end
  local r = 0
  repeat local last = r local function same() return last end r = r + 1 until same() >= 150
  print(n, #log, log[2](), r)
end

-- a function with both: first a loop, then closures over its registers, then the same loop again
local function both(n, again)
  local s = 0
  for i = 1, n do local d = i * 2 s = s + d end
  local d, e = s, 1
  local function set(v) d = v e = e + v end
  for i = 1, n do set(i) s = s + d + e end
  if again then return s + both(n, false) end
  return s
end
local sum = 0
for i = 1, 40 do sum = sum + both(i, i % 2 == 0) end
print(sum)

-- coroutines that leave in the middle, with variables that are shared
local function gen(n)
  local here = 0
  local function bump() here = here + 1 end
  return coroutine.wrap(function() for i = 1, n do bump() coroutine.yield(here + i) end return here end)
end
local g, got = gen(100), 0
for i = 1, 101 do got = got + g() end
print(got)
