-- Errors of message handlers go to the handler that is at work, whatever protected calls and coroutines the handler itself makes.
local function say(...) print(select("#", ...), ...) end

-- A handler that fails a few times.
local times = 0
say(xpcall(error, function(m)
  times = times + 1
  if times < 5 then error(m .. times, 0) end
  return m .. "."
end, "a", 0))

-- A handler with protected calls of its own, which have handlers, too.
say(xpcall(function()
  local function deep(n) if n == 0 then error("b", 0) end deep(n - 1) return n end
  deep(50)
end, function(m)
  local inner = {pcall(error, "in pcall", 0)}
  local other = {xpcall(error, function(m2)
    local third = {xpcall(error, function(m3) return m3 .. "3" end, m2 .. "2", 0)}
    return third[2]
  end, "c", 0)}
  if m == "b" then error(m .. inner[2] .. other[2], 0) end
  return "<" .. m .. ">"
end))

-- A handler that runs coroutines, which fail inside and outside of handlers of their own.
say(xpcall(error, function(m)
  local co = coroutine.create(function()
    local ok, e = xpcall(error, function(x)
      if #x < 4 then error(x .. "+", 0) end
      return x
    end, "d", 0)
    coroutine.yield(e)
    error("out", 0)
  end)
  local _, first = coroutine.resume(co)
  local _, second = coroutine.resume(co)
  if #m < 3 then error(m .. "e", 0) end
  return m .. first .. second
end, "m", 0))

-- An error under a handler's own recursion, and one after another handler has been left.
local level = 0
say(xpcall(function()
  say(xpcall(error, function(m) return "inner " .. m end, "f", 0))
  error("g", 0)
end, function(m)
  level = level + 1
  local function down(n) if n > 0 then return (down(n - 1)) end error(m .. level, 0) end
  if level < 4 then down(20) end
  return m
end))

-- Variables to be closed that fail while a handler that fails is at work.
local function closing(name)
  return setmetatable({}, {__close = function(_, e) error(name .. "(" .. tostring(e) .. ")", 0) end})
end
local tries = 0
say(xpcall(function()
  local x <close> = closing("x")
  local y <close> = closing("y")
  error("h", 0)
end, function(m)
  tries = tries + 1
  if tries < 4 then
    local z <close> = closing("z")
    error(m, 0)
  end
  return m
end))

-- Handlers that never succeed: what is left is the limit's own error.
local depth = 0
local ok, e = xpcall(error, function(m) depth = depth + 1 error(m, 0) end, "i", 0)
print(ok, type(e), depth > 10)
say(pcall(error, "after", 0))
