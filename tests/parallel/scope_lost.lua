-- Errors that no caller gets are told on standard error: those of closing methods while a cancellation unwinds, and those of fibers that fail after another one of their scope.
local process = require "perilune.process"

local head = [[
local pl = require "perilune"
local function closing(f) return setmetatable({}, { __close = f }) end
local function failing(error_value) return closing(function() error(error_value, 0) end) end
local begun = pl.channel.new()
local function hang() begun:send(1) pl.sleep(1e6) end
local function cancelled(f)
  local fiber = pl.fiber(f)
  begun:recv()
  fiber:cancel()
  print(pcall(fiber.await, fiber))
end
]]
local function try(name, text)
  local r = assert(process.run { arg[-1], "-e", head .. text })
  print("-- " .. name)
  io.write(r.stdout, (r.stderr:gsub("\n%s*%[C%][^\n]*", ""):gsub("stack traceback:", "traceback"):gsub("default/%d+", "default/N")))
  if r.code ~= 0 then print("code", r.code, r.signal) end
end

try("a fiber", [[cancelled(function() local z <close> = failing "in close" hang() end)]])
try("several, through a pcall and a coroutine", [[
cancelled(function()
  pcall(function()
    local a <close>, b = failing "a", 1
    coroutine.wrap(function() local c <close> = failing {} hang() end)()
  end)
end)]])
try("a sibling", [[
print(pcall(pl.scope, function(s)
  s:spawn(function() local z <close> = failing "in close" hang() end):name "one"
  begun:recv()
  s:spawn(function() error("first", 0) end):name "other"
end))]])
try("a task", [[
local t = pl.pool.default():async(function() local z <close> = failing "in close" begun:send(1) require "perilune".sleep(1e6) end)
begun:recv()
t:cancel()
print(pcall(t.await, t))]])
try("what a closing method catches is not lost", [[
cancelled(function()
  local z <close> = closing(function() print(pcall(function() local y <close> = failing "caught" error "inner" end)) end)
  hang()
end)]])
try("without a cancellation nothing is lost", [[print(pcall(function() local z <close> = failing "in close" error "first" end))]])
local shielded = [[
local go, fiber, inner = pl.channel.new()
local function in_shield(f)
  fiber = pl.fiber(function() pl.shield(function() begun:send(1) go:recv() f() end) end)
  begun:recv()
  fiber:cancel()
end
local function out() go:send(1) print(pcall(fiber.await, fiber)) end
]]
try("a shield whose caller is being cancelled", shielded .. [[in_shield(function() error("in the shield", 0) end) out()]])
try("an error of a shield that is no text", shielded .. [[in_shield(function() error {} end) out()]])
try("a fiber in such a shield", shielded .. [[in_shield(function() pl.fiber(function() error("in a fiber", 0) end):name "one" end) out()]])
try("a fiber in such a shield that its function awaits", shielded .. [[in_shield(function() pl.fiber(function() error("in a fiber", 0) end):await() end) out()]])
try("what a shield's function catches is not lost", shielded .. [[in_shield(function() print(pcall(error, "caught", 0)) end) out()]])
try("a shield in a closing method", [[cancelled(function() local z <close> = closing(function() pl.shield(error, "once", 0) end) hang() end)]])
try("an error in a shield that somebody else gets", shielded .. [[
in_shield(function() inner = pl.fiber(function() begun:send(1) go:recv() error("for who awaits it", 0) end):name "inner" end)
go:send(1)
begun:recv()
local other = pl.fiber(function() return pcall(inner.await, inner) end)
pl.yield()
out()
print(other:await())]])
try("a shield whose caller is not cancelled", [[print(pcall(pl.shield, error, "for its caller", 0))]])
try("two that fail", [[
local ch = pl.channel.new(2)
print(pcall(pl.scope, function(s)
  s:spawn(function() ch:recv() error "A" end):name "a"
  s:spawn(function() ch:recv() error {} end):name "b"
  pl.yield()
  ch:send(1)
  ch:send(2)
end))]])
