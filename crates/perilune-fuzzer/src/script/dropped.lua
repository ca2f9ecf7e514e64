-- Coroutines that end, are closed, or are dropped while they are in the middle of natives. Each has a number, and
-- says so when it runs after its end.
local ended = {}
local function check(id)
  if ended[id] then
    io.stdout:write("coroutine ", id, " runs after its end\n")
    os.exit(1)
  end
end
local function pause(id, ...)
  check(id)
  local function back(...) check(id) return ... end
  return back(coroutine.yield(...))
end
local function closing(id, pauses)
  return setmetatable({}, { __close = function() check(id) if pauses then pause(id, "closing") end end })
end
local function meta(t) return setmetatable({}, t) end
local ok_pl, pl = pcall(require, "perilune")
local cell, map
if ok_pl then cell, map = pl.atomic(0), pl.map() end
local alive = {}
local function start(id, f) alive[id] = coroutine.create(function(...) check(id) return f(...) end) end
local function go_on(id, times)
  for _ = 1, times do
    if not alive[id] or coroutine.status(alive[id]) ~= "suspended" then return end
    coroutine.resume(alive[id], id)
  end
end
local function drop(id) ended[id] = true alive[id] = nil end
local function close(id)
  if alive[id] then pcall(coroutine.close, alive[id]) end
  drop(id)
end
