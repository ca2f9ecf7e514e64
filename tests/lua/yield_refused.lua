-- Yields that cannot be: the message has no position.
local co = coroutine.wrap(function() return pcall(function() return load(function() coroutine.yield() end) end) end)
--print(co())
print(pcall(coroutine.yield))
print(pcall(coroutine.yield, 1, 2))
print(select(2, pcall(function() local x <close> = setmetatable({}, {__close = function() end}) coroutine.yield() end)))
local co = coroutine.create(function()
  setmetatable({}, {__gc = function() print(pcall(coroutine.yield)) print(coroutine.isyieldable()) end})
  collectgarbage() collectgarbage()
  xpcall(error, function() print(pcall(coroutine.yield)) end)
  print(xpcall(error, function() coroutine.yield() end))
  debug.sethook(function() debug.sethook() print(pcall(coroutine.yield)) end, "l")
  local x = 1
  debug.sethook()
  debug.sethook(function() debug.sethook() coroutine.yield() end, "l")
  local x = 1
end)
print(coroutine.resume(co))

