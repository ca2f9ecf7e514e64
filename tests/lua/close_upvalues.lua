-- The upvalues of a block are closed before its closing methods run: returns, blocks, errors, coroutines.
local function f(i)
  local c <close> = setmetatable({}, {__close = function() i = i + 2 end})
  return i
end
print(f(27))
local function g(i, j)
  local c <close> = setmetatable({}, {__close = function() i, j = j, i end})
  return i, j
end
print(g(1, 2))
-- in a block that falls through
local function h()
  local seen
  do
    local v = 1
    local get = function() return v end
    local c <close> = setmetatable({}, {__close = function() v = v + 1 seen = get() end})
    v = 10
  end
  return seen
end
print(h())
-- with an error
local got
print(pcall(function(i)
  local get = function() return i end
  local c <close> = setmetatable({}, {__close = function(_, e) i = i + 1 got = get() end})
  i = 5
  error("x", 0)
end, 1))
print(got)
-- a coroutine that is closed
local co = coroutine.create(function(i)
  local c <close> = setmetatable({}, {__close = function() i = i * 2 got = i end})
  coroutine.yield(i)
end)
print(coroutine.resume(co, 21)) print(coroutine.close(co)) print(got)
-- methods that yield
local co = coroutine.wrap(function(i)
  local c <close> = setmetatable({}, {__close = function() coroutine.yield("closing") i = i + 100 end})
  return i
end)
print(co(3)) print(co())
for k = 1, 3 do
  local x = k
  local c <close> = setmetatable({}, {__close = function() x = x + 1 end})
  local fs = function() return x end
  if k == 2 then goto continue end
  x = x * 10
  ::continue::
end
local function loop()
  for k = 1, 5 do
    local x = k
    local c <close> = setmetatable({}, {__close = function() x = -1 end})
    if k == 3 then return x end
  end
end
print(loop())
