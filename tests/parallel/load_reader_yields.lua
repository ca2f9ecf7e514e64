-- Readers of `load` that yield in mid-parse, and that are dropped there.
local co = coroutine.wrap(function()
  local n = 0
  local g = assert(load(function()
    n = n + 1
    return coroutine.yield(n)
  end, "=co"))
  return "done", g()
end)
print(co()) print(co "ret") print(co "urn 4") print(co "2, '") print(co "a") print(co "b'") print(co(nil))
do
  local closed
  local co = coroutine.create(function()
    load(function() local c <close> = setmetatable({}, { __close = function() closed = true end }) return coroutine.yield() end)
    print "not reached"
  end)
  coroutine.resume(co) coroutine.resume(co, "return {") coroutine.resume(co, "1, function(")
  print(coroutine.status(co), coroutine.close(co), closed, coroutine.status(co))
  co = nil
  for _ = 1, 3 do
    local c = coroutine.wrap(function() load(function() return coroutine.yield() end) error "not reached" end)
    c() c "local function f() "
  end
  collectgarbage() collectgarbage()
end
