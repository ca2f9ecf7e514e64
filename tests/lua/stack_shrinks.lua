-- stress: no
-- Value stacks that a recursion has made large are given back by the collector, also those of coroutines that have ended, or wait.
local DEPTH <const> = 50000

local function sum(n)
  if n == 0 then return 0 end
  return n + sum(n - 1)
end
local function wait(n)
  if n == 0 then
    coroutine.yield "deep"
    return 0
  end
  return 1 + wait(n - 1)
end
-- KiB, after what waited for the next collection has gone too.
local function count()
  collectgarbage()
  collectgarbage()
  return collectgarbage "count"
end

local before = count()
local function small(what)
  print(what, count() - before < 1000)
end

print(sum(DEPTH))
small "main"
print(pcall(function() local function f() return 1 + f() end return f() end))
small "overflow"

-- They are used for more and more, and for little again.
local cos = {}
for i = 1, 8 do
  local kept = i
  cos[i] = coroutine.create(function(a)
    local variable <close> = setmetatable({}, {__close = function() kept = kept + 100 end})
    local function get() return a + kept end
    while true do
      local said = coroutine.yield(wait(DEPTH), get())
      if said == "end" then return get() end
      a = said
    end
  end)
end
for i, co in ipairs(cos) do print(coroutine.resume(co, i * 1000)) end
print("deep", count() - before > 8 * 1000)
for i, co in ipairs(cos) do print(coroutine.resume(co)) end
small "waiting"
for i, co in ipairs(cos) do assert(select(2, coroutine.resume(co, i)) == "deep") end
for i, co in ipairs(cos) do print(coroutine.resume(co)) end
small "waiting again"
for i, co in ipairs(cos) do print(coroutine.resume(co, "end")) end
small "dead"

-- Failed ones keep their frames, for the traceback.
local failed = coroutine.create(function() sum(DEPTH) local t = nil; t.x = 1 end)
print(coroutine.resume(failed))
small "failed"
print(debug.traceback(failed))

-- A stack with many registers below a yield is not cut.
local wide = coroutine.wrap(function()
  sum(DEPTH)
  local t = table.pack(table.unpack({}, 1, 200))
  local function many(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
    coroutine.yield "wide"
    local q, r, s, t, u, v, w, x, y, z = a, b, c, d, e, f, g, h, i, j
    local list = {a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z}
    return #list, list[26], t
  end
  return many(table.unpack({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))
end)
print(wide())
small "wide"
print(wide())

-- Within natives, hooks and metamethods.
local function sorted()
  local t = {}
  for i = 1, 30 do t[i] = i * 7 % 31 end
  table.sort(t, function(a, b)
    if a == 1 then sum(2000) collectgarbage() end
    return a < b
  end)
  return table.concat(t, " ")
end
print(sorted())
local lt = setmetatable({}, {__lt = function() sum(DEPTH) collectgarbage() return true end})
print(lt < lt)
print(select(2, ("x"):gsub("x", function() sum(DEPTH) collectgarbage() end)))
local lines = 0
debug.sethook(function() lines = lines + 1 if lines == 2 then sum(DEPTH) collectgarbage() end end, "l")
local x = 1
local y = 2
debug.sethook()
print(lines, x + y)
small "natives"
