-- Hooks: which events, in which order, on which lines, for which coroutine.
local function trace(mask, f, ...)
  local events = {}
  debug.sethook(function(event, line)
    local i = debug.getinfo(2, "nS")
    events[#events + 1] = event .. (line and ":" .. line or "") .. (i.name and "(" .. i.name .. ")" or "")
  end, mask)
  f(...)
  debug.sethook()
  print(table.concat(events, " "))
end
local function lines(code)
  local f, events = load(code), {}
  debug.sethook(function(_, line) events[#events + 1] = line end, "l")
  f()
  debug.sethook()
  print(table.concat(events, " "))
end

local function leaf(a, ...) return a, ... end
local function tail(n) if n == 0 then return leaf(n) end return tail(n - 1) end
local function natives() local x = math.abs(-1) return math.max(x, 2) end
trace("c", leaf, 1)
trace("r", leaf, 1, 2)
trace("cr", tail, 2)
trace("cr", natives)
trace("cr", pcall, leaf, 1)
trace("cr", pcall, error, "x")
trace("cr", function() for i in pairs {1} do end end)
trace("cr", function() for i in ipairs {1} do end end)
trace("cr", function() string.gsub("ab", "%w", leaf) end)
trace("cr", function() table.sort({2, 1}, function(a, b) return a < b end) end)
trace("cr", function() local c <close> = setmetatable({}, {__close = function() end}) end)
trace("cr", function() return setmetatable({}, {__index = function() return 1 end}).x end)
trace("cr", select, 2, 1, 2, 3)
trace("cr", coroutine.wrap(function() leaf(1) end))

lines "local a = 1\nlocal b = 2\n\nreturn a + b"
lines "for i = 1, 2 do\n  local x = i\nend"
lines "for i = 1, 3 do local x = i end"
lines "local i = 0\nwhile i < 2 do\n  i = i + 1\nend"
lines "local i = 0\nrepeat\n  i = i + 1\nuntil i == 2"
lines "if nil then\n  a = 1\nelse\n  b = 2\nend"
lines "if\nmath.sin(1)\nthen\n  local a = 1\nend"
lines "for k, v in pairs {1, 2} do\n  local x = k\nend"
lines "local function f()\n  return 1\nend\nf()\nf()"
lines "local function f(...)\n  return ...\nend\nf()\nf()"
lines "while true do break end"
lines "do\n  return\nend"

-- counts
local n = 0
debug.sethook(function(event) assert(event == "count") n = n + 1 end, "", 1)
for i = 1, 100 do end
debug.sethook()
print(n > 100 and n < 112)
n = 0
debug.sethook(function() n = n + 1 end, "", 10)
for i = 1, 100 do end
debug.sethook()
print(n >= 9 and n < 14)

-- what is set
local function hook() end
print(debug.gethook())
debug.sethook(hook, "crl", 7)
local f, mask, count = debug.gethook()
debug.sethook()
print(f == hook, mask, count)
debug.sethook(hook, "l")
f, mask, count = debug.gethook()
debug.sethook(hook, "")
local none = debug.gethook()
debug.sethook()
print(f == hook, mask, count, none)

-- errors in hooks, and what a hook may not do
local ok, message = pcall(function()
  debug.sethook(function() debug.sethook() error("from the hook") end, "l")
  local x = 1
end)
print(ok, message)
local co = coroutine.create(function()
  debug.sethook(function() coroutine.yield() end, "l")
  local x = 1
end)
print(coroutine.resume(co))

-- hooks see values passed and returned
local seen = {}
debug.sethook(function(event)
  local i = debug.getinfo(2, "rf")
  if i.func == leaf or i.func == math.max then
    local values = {}
    for j = i.ftransfer, i.ftransfer + i.ntransfer - 1 do
      values[#values + 1] = tostring(select(2, debug.getlocal(2, j)))
    end
    seen[#seen + 1] = event .. "(" .. table.concat(values, ",") .. ")"
  end
end, "cr")
leaf(1, 2, 3)
math.max(4, 5)
debug.sethook()
print(table.concat(seen, " "))

-- each coroutine has its own
local log = {}
co = coroutine.create(function(a)
  local b = coroutine.yield(a)
  return b
end)
debug.sethook(co, function(event, line) log[#log + 1] = event .. (line or "") end, "crl")
coroutine.resume(co, 1)
print(debug.gethook() == nil, debug.gethook(co) ~= nil)
coroutine.resume(co, 2)
for i, e in ipairs(log) do log[i] = e:gsub("%d+", "") end
print(table.concat(log, " "))

-- a hook may collect, change variables and the hook itself
local changed
debug.sethook(function()
  collectgarbage()
  debug.sethook()
  changed = debug.setlocal(2, 1, "by the hook")
end, "l")
local function victim(v)
  return v
end
print(victim("own"), changed)
