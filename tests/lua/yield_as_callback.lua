-- `coroutine.yield` itself as what a library function calls.
print(pcall(table.sort, {3,2,1}, coroutine.yield))
print(pcall(string.gsub, "abc", "%w", coroutine.yield))
local co = coroutine.create(function() return pcall(table.sort, {3,2,1}, coroutine.yield) end)
print(coroutine.resume(co))
print(coroutine.status(co))
co = coroutine.wrap(function() return pcall(string.gsub, "abc", "%w", coroutine.yield) end)
print(co())
