-- A small operating system in simulation: tasks of several classes with queues of packets, devices that answer
-- later, a scheduler that picks by priority. Objects, inheritance, linked queues, state machines.
-- bench: group=programs size=1300 quick=90
local n = tonumber(arg and arg[1]) or 1300

local function class(parent)
  local c = {}
  c.__index = c
  return setmetatable(c, parent)
end
local function new(c, ...)
  local o = setmetatable({}, c)
  o:init(...)
  return o
end

local Packet = class()
function Packet:init(kind, owner, value) self.kind = kind; self.owner = owner; self.value = value; self.next = false end

local Queue = class()
function Queue:init() self.first = false; self.last = false; self.count = 0 end
function Queue:push(p)
  p.next = false
  if self.last then self.last.next = p else self.first = p end
  self.last = p
  self.count = self.count + 1
end
function Queue:pop()
  local p = self.first
  if not p then return nil end
  self.first = p.next
  if not p.next then self.last = false end
  self.count = self.count - 1
  return p
end

local Task = class()
function Task:init(name, priority)
  self.name, self.priority = name, priority
  self.inbox = new(Queue)
  self.blocked, self.runs, self.sent = false, 0, 0
end
function Task:ready() return not self.blocked and (self.inbox.count > 0 or self:has_work()) end
function Task:has_work() return false end
function Task:receive(p) self.inbox:push(p); self.blocked = false end
function Task:send(to, p)
  self.sent = self.sent + 1
  to:receive(p)
end
function Task:run() self.runs = self.runs + 1; self:step() end

local Device = class(Task)
function Device:init(name, priority, delay)
  Task.init(self, name, priority)
  self.delay, self.clock, self.pending, self.served = delay, 0, new(Queue), 0
end
function Device:has_work() return self.pending.count > 0 end
function Device:step()
  local p = self.inbox:pop()
  if p then self.pending:push(p) end
  self.clock = self.clock + 1
  if self.clock % self.delay == 0 then
    local done = self.pending:pop()
    if done then
      done.kind = "answer"
      done.value = (done.value * 7 + self.delay) % 1009
      self.served = self.served + 1
      self:send(done.owner, done)
    end
  end
end

local Worker = class(Task)
function Worker:init(name, priority, budget, devices)
  Task.init(self, name, priority)
  self.left, self.devices, self.sum, self.waiting = budget, devices, 0, 0
end
function Worker:has_work() return self.left > 0 and self.waiting < 3 end
function Worker:step()
  local p = self.inbox:pop()
  if p then
    self.waiting = self.waiting - 1
    self.sum = (self.sum + p.value) % 1000003
  elseif self.left > 0 then
    local device = self.devices[self.left % #self.devices + 1]
    self:send(device, new(Packet, "request", self, self.left))
    self.left = self.left - 1
    self.waiting = self.waiting + 1
    if self.waiting >= 3 then self.blocked = true end
  end
end

local Idle = class(Task)
function Idle:has_work() return true end
function Idle:step() self.spins = (self.spins or 0) + 1 end

local Scheduler = class()
function Scheduler:init() self.tasks = {}; self.switches = 0 end
function Scheduler:add(t) self.tasks[#self.tasks + 1] = t; return t end
function Scheduler:pick()
  local best
  for _, t in ipairs(self.tasks) do
    if t:ready() and (not best or t.priority > best.priority or (t.priority == best.priority and t.runs < best.runs)) then
      best = t
    end
  end
  return best
end
function Scheduler:run(finished)
  while not finished() do
    self:pick():run()
    self.switches = self.switches + 1
  end
end

local checksum, switches = 0, 0
for round = 1, n do
  local s = new(Scheduler)
  local disk, net = s:add(new(Device, "disk", 5, 3)), s:add(new(Device, "net", 5, 2))
  local workers = {}
  for i = 1, 3 do workers[i] = s:add(new(Worker, "worker" .. i, 3, 20 + i * round % 5, { disk, net })) end
  s:add(new(Idle, "idle", 0))
  s:run(function()
    for _, w in ipairs(workers) do if w.left > 0 or w.waiting > 0 then return false end end
    return true
  end)
  local sent = 0
  for _, w in ipairs(workers) do
    sent = sent + w.sent
    checksum = (checksum * 31 + w.sum) % 1000003
  end
  assert(sent == disk.served + net.served)
  switches = switches + s.switches
end
local result = string.format("machine_room %d %d", checksum, switches)
local known = { [90] = "machine_room 742574 26676", [1300] = "machine_room 34022 385320" }
assert(not known[n] or result == known[n], result)
print(result)
