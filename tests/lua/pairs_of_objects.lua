-- `pairs` of tables that have a metatable: without `__pairs` it is that of any table, and with one from now on.
local Class = {}
Class.__index = Class
local objects = {}
for i = 1, 20 do objects[i] = setmetatable({ a = i, b = i * 2 }, Class) end

local function total(object)
  local sum = 0
  for _, v in pairs(object) do sum = sum + v end
  return sum
end
local function pass()
  local sum = 0
  for _ = 1, 50 do
    for i = 1, #objects do sum = sum + total(objects[i]) end
  end
  return sum
end

print(pass(), pass())
function Class.__pairs() return next, { 1000 }, nil end
print(pass())
Class.__pairs = nil
print(pass())
rawset(Class, "__pairs", function(object)
  return function(_, key) if not key then return 1, object.a end end, object, nil
end)
print(pass())
rawset(Class, "__pairs", nil)
print(pass())

-- Another metatable for one of them, and none.
setmetatable(objects[3], { __pairs = function() return next, {}, nil end })
setmetatable(objects[4], nil)
print(pass())

-- A metatable with `__pairs` that is false is asked to be called.
setmetatable(objects[5], { __pairs = false })
print(pcall(total, objects[5]))
setmetatable(objects[5], { __metatable = "hidden" })
print(total(objects[5]))

-- What `__pairs` raises, and where it yields.
setmetatable(objects[6], { __pairs = function() error("no pairs", 0) end })
print(pcall(total, objects[6]))
setmetatable(objects[6], { __pairs = function(object) coroutine.yield("asked"); return next, object, nil end })
local co = coroutine.wrap(function() return total(objects[6]) end)
print(co(), co())
print(pcall(pairs))
