-- Upvalues of coroutines that nobody else refers to any more.
local function parked(n)
  local f
  local co = coroutine.wrap(function()
    local x, y = {n}, n
    f = function(v)
      if v then x, y = {v}, v end
      return x[1], y
    end
    coroutine.yield()
  end)
  co()
  return f
end

local all = {}
for i = 1, 200 do all[i] = parked(i) end
collectgarbage()
collectgarbage()
for i = 1, 1000 do local garbage = {i, {i}} end
collectgarbage()
local sum = 0
for i = 1, 200 do
  local a, b = all[i]()
  sum = sum + a + b
end
print(sum)
for i = 1, 200 do all[i](i * 2) end
collectgarbage()
for i = 1, 1000 do local garbage = {i, {i}} end
collectgarbage()
sum = 0
for i = 1, 200 do
  local a, b = all[i]()
  sum = sum + a + b
end
print(sum)

-- The coroutine goes when its last closure goes.
local weak = setmetatable({}, {__mode = "v"})
do
  local f
  weak.co = coroutine.create(function()
    local x = {}
    f = function() return x end
    coroutine.yield()
  end)
  coroutine.resume(weak.co)
  f = nil
end
collectgarbage()
print(weak.co)
