-- Discrete event simulation with coroutines: ships arrive, wait for a berth and a tug, unload, leave; a heap of
-- events by time, resources with waiting lines, statistics per class of ship.
-- bench: group=programs size=150000 quick=9000
local n = tonumber(arg and arg[1]) or 150000
local create, resume, yield = coroutine.create, coroutine.resume, coroutine.yield

local seed = 4711
local function random() seed = seed * 16807 % 2147483647; return seed / 2147483647 end
local function exponential(mean) return -mean * math.log(1 - random()) end

local Heap = {}
Heap.__index = Heap
function Heap:push(time, what)
  local i = #self + 1
  local e = { time = time, what = what }
  while i > 1 do
    local p = (i - i % 2) / 2
    if self[p].time <= time then break end
    self[i] = self[p]
    i = p
  end
  self[i] = e
end
function Heap:pop()
  local top, size = self[1], #self
  local e = self[size]
  self[size] = nil
  size = size - 1
  if size > 0 then
    local i = 1
    while 2 * i <= size do
      local c = 2 * i
      if c < size and self[c + 1].time < self[c].time then c = c + 1 end
      if self[c].time >= e.time then break end
      self[i] = self[c]
      i = c
    end
    self[i] = e
  end
  return top
end

local World = { now = 0, events = setmetatable({}, Heap), handled = 0 }
function World:start(f, ...)
  local co = create(f)
  self:step(co, ...)
end
function World:step(co, ...)
  local ok, delay = resume(co, ...)
  assert(ok, delay)
  if delay then self.events:push(self.now + delay, co) end
end
function World:run()
  while #self.events > 0 do
    local e = self.events:pop()
    assert(e.time >= self.now)
    self.now = e.time
    self.handled = self.handled + 1
    self:step(e.what)
  end
end

local Resource = {}
Resource.__index = Resource
local function resource(k) return setmetatable({ free = k, total = k, head = 1, tail = 0, line = {}, waits = 0 }, Resource) end
function Resource:take(co)
  if self.free > 0 then
    self.free = self.free - 1
    return
  end
  self.tail = self.tail + 1
  self.line[self.tail] = co
  self.waits = self.waits + 1
  yield(nil)
end
function Resource:give()
  if self.head <= self.tail then
    local co = self.line[self.head]
    self.line[self.head] = nil
    self.head = self.head + 1
    World.events:push(World.now, co)
  else
    self.free = self.free + 1
  end
end

local berths, tugs = resource(4), resource(2)
local kinds = { { name = "tanker", unload = 30 }, { name = "freighter", unload = 12 }, { name = "ferry", unload = 2 } }
local stats = {}
for _, k in ipairs(kinds) do stats[k.name] = { count = 0, time = 0, worst = 0 } end

local function ship(kind)
  local me = coroutine.running()
  local arrived = World.now
  berths:take(me)
  tugs:take(me)
  yield(1 + random())
  tugs:give()
  yield(kind.unload * (0.5 + random()))
  tugs:take(me)
  yield(1)
  tugs:give()
  berths:give()
  local s, t = stats[kind.name], World.now - arrived
  s.count = s.count + 1
  s.time = s.time + t
  if t > s.worst then s.worst = t end
end
World:start(function()
  for _ = 1, n do
    yield(exponential(5))
    local r = random()
    World:start(ship, kinds[r < 0.2 and 1 or r < 0.6 and 2 or 3])
  end
end)
World:run()
assert(berths.free == berths.total and tugs.free == tugs.total)
local total, sum = 0, 0
for _, k in ipairs(kinds) do
  total = total + stats[k.name].count
  sum = sum + stats[k.name].time
end
assert(total == n and World.handled > 4 * n)
print(string.format("harbour %d %d %.4f %.4f", World.handled, berths.waits, sum / n, World.now))
