-- Functions whose callees are not machine code, or leave it: they go on as machine code behind the call, with whatever is there then.

local function show(...) print(select("#", ...), ...) end

-- What the caller had found out about its variables has to be found out again: another function of the library is in `f`.
local function body(f)
  while true do
    local a = f(2.25)
    coroutine.yield(a)
    local b = f(2.25)
    coroutine.yield(b)
  end
end
local hot = coroutine.wrap(body)
for _ = 1, 200 do hot(math.sqrt) end
local other = coroutine.wrap(body)
show(other(math.floor), other(), other(), other(), other())

local turn = 0
local callee = function(x) return x end
local function caller(f, x)
  local a = f(x)
  local b = callee(a)
  local c = f(b)
  return a, b, c
end
for i = 1, 200 do caller(math.sqrt, 2.25) end
callee = load "local x = ... for _ = 1, 3 do x = x + 0 end return x"
show(caller(math.sqrt, 16.0))
show(caller(math.floor, 2.75))
show(caller(math.ceil, 2.25))

-- Types behind the call that are others than they were.
local function typed(n, give)
  local s, t, last = 0, { 1, 2, 3 }, nil
  for i = 1, n do
    local x = give(i)
    s = s + #t
    last = x
    if type(x) == "table" then t = x end
  end
  return s, last
end
for _ = 1, 5 do typed(50, function(i) return i end) end
show(typed(50, function(i) return i end))
show(typed(50, function(i) return i % 7 == 0 and { i, i } or i + 0.5 end))
show(select(2, typed(50, function(i) return i == 50 and "text" or nil end)))

-- Recursion whose depth leaves machine code, and comes back through every level.
local function depth(n, at, what)
  if n == 0 then return what(at) end
  local below = depth(n - 1, at + 1, what)
  return below + 1
end
for _ = 1, 60 do depth(20, 0, function(at) return at end) end
show(depth(150, 0, function(at) return at end))
show(depth(150, 0, load "local at = ... local s = 0 for i = 1, at do s = s + i end return s"))
show(pcall(depth, 150, 0, function() error("at the bottom", 0) end))
show(pcall(depth, 60, 0, function(at) return nil end))
show(depth(10000, 0, function(at) return at end))

-- Yields, errors and closing on the way back.
local closed = 0
local closing = setmetatable({}, { __close = function() closed = closed + 1 end })
local function guarded(n, what)
  if n == 0 then return what() end
  local c <close> = closing
  local below = guarded(n - 1, what)
  return below + 1
end
for _ = 1, 60 do guarded(3, function() return 0 end) end
local before = closed
local co = coroutine.wrap(function() return guarded(10, function() return coroutine.yield("up") end) end)
show(co())
show(co(5), closed - before)
show(pcall(guarded, 10, function() error({}) end) == false, closed - before)

-- A hook sees what runs behind a call.
local lines = {}
local function traced(n)
  local s = 0
  for i = 1, n do
    s = s + callee(i)
    if i == n - 1 then
      debug.sethook(function(_, line) lines[#lines + 1] = line - debug.getinfo(2, "S").linedefined end, "l")
    end
  end
  debug.sethook()
  return s
end
for _ = 1, 30 do traced(40) end
show(#lines > 0)

-- Tail calls, extra arguments, results up to the top: the frame that comes back may lie elsewhere.
local function extra(...) local a, b = ... return a, b, select("#", ...) end
local function tail(...) return extra(...) end
local late = load "local a, b = ... return a, b, 'late'"
local function mixed(n, f)
  local x, y, z
  for i = 1, n do
    x, y, z = f(i, i + 1, i + 2)
    local list = { f(z, y, x) }
    assert(#list == 3)
  end
  return x, y, z
end
for _ = 1, 5 do mixed(40, tail) end
show(mixed(40, tail))
show(mixed(40, late))
show(mixed(40, function(...) return late(...) end))

-- Classes that get methods, parents and metatables while their objects are used.
local Base = { name = function() return "base" end, size = function(self) return self.n end }
Base.__index = Base
local Derived = setmetatable({ size = function(self) return self.n * 2 end }, Base)
Derived.__index = Derived
local function object(class, n) return setmetatable({ n = n }, class) end
local function ask(o) return o:name(), o:size() end
local objects = { object(Base, 1), object(Derived, 2) }
local function all(n)
  local text, sum = "", 0
  for i = 1, n do
    local name, size = ask(objects[i % #objects + 1])
    text, sum = name, sum + size
  end
  return text, sum
end
for _ = 1, 5 do all(60) end
show(all(60))
for k = 1, 30 do
  Base["m" .. k] = k
  all(10)
end
show(all(60))
Derived.name = function() return "derived" end
show(ask(objects[1]), (ask(objects[2])))
setmetatable(Derived, { __index = { name = function() return "nobody" end } })
Derived.name = nil
show(ask(objects[2]))
Base.name = nil
show(pcall(ask, objects[1]))
Base.name = function() return "again" end
local keyed = object(Base, 7)
keyed["key" .. 1] = true
objects[3] = keyed
show(all(60))
keyed.name = function() return "its own" end
show(ask(keyed))
keyed.name = nil
show(ask(keyed))
for k = 1, 5 do
  local Class = { name = function() return "class " .. k end, size = function() return k end }
  Class.__index = Class
  objects[#objects + 1] = object(Class, k)
  objects[#objects]["odd" .. k] = k
  show(all(60))
end
