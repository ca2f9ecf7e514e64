-- What `classes.rs` builds programs from, behind `prelude.lua`.
local count, barred, hooks = 0, false, 0
local store, away = {}, nil
local C = {}
local objs = {}
local function act(...) tick() count = count + 1 return ... end
-- Yields, in a coroutine, unless a native that the reference cannot leave is below.
local function maybe(v)
  tick()
  if not barred and coroutine.isyieldable() then return coroutine.yield(v) end
  return v
end
-- Calls a function through one of the library.
local function through(f, ...)
  local before, r = barred, nil
  barred = true
  local packed = table.pack(...)
  local ok, e = pcall(string.gsub, "x", "x", function() r = table.pack(f(table.unpack(packed, 1, packed.n))) end)
  barred = before
  if not ok then error(e, 0) end
  return table.unpack(r, 1, r.n)
end
local closer = {__close = function(o, e) tick() count = count + (e == nil and 1 or 100) end}
local waiting = {__close = function(o, e) maybe(type(e)) end}
local function trace(e) return (debug.traceback(text(e, 9), 1):gsub("0x%x+", "ADDR")) end
local function new(class, ...)
  local o = {...}
  o.x, o.y = o[1] or 0, select("#", ...)
  o[1] = nil
  return setmetatable(o, class)
end
local function num(v)
  if math.type(v) == "integer" then return v % 1000 end
  return 3
end
local function inherit(class, parent, prefix)
  for k, v in next, parent do
    if k:sub(1, #prefix) == prefix and k ~= "__index" then rawset(class, k, v) end
  end
end
local function start(f, ...)
  fuel = 3000
  return f(...)
end
-- Ways to run a function.
local way = {}
function way.plain(f, ...) return check(f, ...) end
function way.traced(f, ...)
  local ok, e = xpcall(f, trace, ...)
  print("traced", ok, ok and text(e, 1) or e)
end
function way.through(f, ...) return check(through, f, ...) end
function way.coroutine(f, ...)
  local co, r = coroutine.create(f), nil
  r = table.pack(coroutine.resume(co, ...))
  for i = 1, 60 do
    if coroutine.status(co) == "dead" then break end
    show(i, table.unpack(r, 1, r.n))
    r = table.pack(coroutine.resume(co, i % 4 ~= 0 and i or nil))
  end
  show("co", coroutine.status(co), table.unpack(r, 1, r.n))
  show(coroutine.close(co))
end
function way.dropped(f, ...)
  for n = 0, 9 do
    local co = coroutine.create(f)
    coroutine.resume(co, ...)
    for i = 1, n do coroutine.resume(co, i) end
    if n % 3 == 0 then show(coroutine.close(co)) end
  end
  collectgarbage()
  show(count)
end
function way.wrapped(f, ...)
  local again = coroutine.wrap(function(...) return pcall(f, ...) end)
  show(pcall(again, ...))
  show(pcall(again, 5))
end
function way.hooked(f, ...)
  local before = hooks
  debug.sethook(function() hooks = hooks + 1 end, "cr")
  local r = table.pack(pcall(f, ...))
  debug.sethook()
  show("hooked", hooks - before, table.unpack(r, 1, r.n))
end
function way.iterator(f, o, p, n)
  local r, i = {}, 0
  local ok, e = pcall(function()
    for a, b in f, o, p do
      i = i + 1
      r[i] = text(a, 3) .. text(b, 3)
      if i > 3 then break end
    end
  end)
  show("iterator", ok, e, table.concat(r, " "))
end
