-- Natives that call functions of Lua many times: whatever the function does, it is a call like any other, also once it is machine code.

local function shuffled(n)
  local seed, t = 7, {}
  for i = 1, n do
    seed = seed * 16807 % 2147483647
    t[i] = { key = seed % 1000, id = i }
  end
  return t
end

local function is_sorted(t, before)
  for i = 2, #t do if before(t[i], t[i - 1]) then return false end end
  return true
end

-- Arguments: fewer are taken than given, more, and any number.
local function by_key(a, b)
  if a.key ~= b.key then return a.key < b.key end
  return a.id < b.id
end
local function padded(a, b, c, d) return c == nil and d == nil and by_key(a, b) end
local function any(...)
  local a, b = ...
  return select("#", ...) == 2 and by_key(a, b)
end
local function passes_on(a, b) return by_key(a, b) end
local function several(a, b) return by_key(a, b), "more", "results" end
for name, before in pairs { by_key = by_key, padded = padded, any = any, passes_on = passes_on, several = several } do
  for _ = 1, 12 do
    local t = shuffled(120)
    table.sort(t, before)
    assert(is_sorted(t, by_key), name)
  end
end
print("sorted")

-- No results, or none that is true, is no order; one that never ends is found.
local t = shuffled(200)
table.sort(t, function() end)
print(pcall(table.sort, shuffled(200), function() return true end))

-- Errors: of the function, in all kinds of depth, with their positions.
local function fails_after(n)
  local calls = 0
  return function(a, b)
    calls = calls + 1
    if calls > n then error("after " .. calls) end
    return a.key < b.key
  end
end
for _, n in ipairs { 0, 1, 50, 400, 900 } do
  print(pcall(table.sort, shuffled(300), fails_after(n)))
end
print(select(2, xpcall(table.sort, function(m) return "handled: " .. m end, shuffled(300), fails_after(700))))
print(pcall(table.sort, shuffled(300), function(a, b) return a.key < b.nothing end))
print(pcall(string.gsub, ("x"):rep(500), "x", function(c) if c == "x" then return {} end end))

-- What is called calls such natives, too.
local function nested(a, b)
  local pair = { b, a }
  table.sort(pair, by_key)
  return pair[1] == a and a ~= b
end
t = shuffled(150)
table.sort(t, nested)
assert(is_sorted(t, by_key))
local function deeper(n)
  return (("a"):gsub("a", function() return n > 0 and deeper(n - 1) .. n or "end" end))
end
print(deeper(60))
print(pcall(function() return deeper(250) end))

-- The stack moves meanwhile.
local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
local depth = 10
t = shuffled(100)
table.sort(t, function(a, b)
  depth = depth < 3000 and depth + 100 or depth
  return deep(depth) == depth and by_key(a, b)
end)
assert(is_sorted(t, by_key))

-- Memory is collected meanwhile, with elements that nobody has but the native.
local count = 0
t = shuffled(200)
table.sort(t, function(a, b)
  count = count + 1
  if count % 64 == 0 then collectgarbage() end
  local garbage = { a.key, b.key }
  return garbage[1] < garbage[2]
end)
assert(is_sorted(t, function(a, b) return a.key < b.key end))

-- Coroutines: functions yield across the natives, or are wrapped.
local co = coroutine.wrap(function()
  local parts = {}
  local text = ("ab"):rep(200):gsub("%w", function(c)
    parts[#parts + 1] = c
    if #parts % 100 == 0 then return nil end
    return c == "a" and "b" or "a"
  end)
  return #text, #parts
end)
print(co())
t = shuffled(100)
table.sort(t, coroutine.wrap(function(a, b)
  while true do a, b = coroutine.yield(by_key(a, b)) end
end))
assert(is_sorted(t, by_key))

-- Protected calls in it.
t = shuffled(100)
table.sort(t, function(a, b)
  local ok, less = pcall(by_key, a, b)
  local bad = pcall(error, "x")
  return ok and not bad and less
end)
assert(is_sorted(t, by_key))

-- Hooks that are set, and removed, in the middle.
local seen = 0
count = 0
t = shuffled(100)
table.sort(t, function(a, b)
  count = count + 1
  if count == 200 then debug.sethook(function() seen = seen + 1 end, "c") end
  if count == 300 then debug.sethook() end
  return by_key(a, b)
end)
assert(is_sorted(t, by_key))
print(seen >= 200 and seen <= 320)

-- Who asks finds the native between.
local told
t = shuffled(300)
count = 0
local function asks(a, b)
  count = count + 1
  if count == 500 then
    told = { debug.getinfo(1, "S").what, debug.getinfo(2, "S").what, debug.getinfo(3, "S").what }
  end
  return by_key(a, b)
end
table.sort(t, asks)
print(table.concat(told, " "))

-- Metamethods that natives call.
local Number = {}
Number.__lt = function(a, b) return a.value < b.value end
Number.__eq = function(a, b) return a.value == b.value end
Number.__index = function(_, k) return k end
Number.__len = function() return 90 end
t = {}
for i = 1, 300 do t[i] = setmetatable({ value = i * 7919 % 1000 }, Number) end
table.sort(t)
for i = 2, #t do assert(not (t[i] < t[i - 1])) end
print(#table.concat(setmetatable({}, { __index = function(_, k) return k end, __len = function() return 90 end }), " "))

-- Variables to be closed.
local closed = 0
t = shuffled(100)
table.sort(t, function(a, b)
  local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
  return by_key(a, b)
end)
assert(is_sorted(t, by_key) and closed > 100)

-- gsub with functions of captures.
local function swap(k, v) return v .. "=" .. k end
local text = ("key=value; "):rep(100)
local sum = 0
for _ = 1, 20 do sum = sum + #text:gsub("(%w+)=(%w+)", swap) end
print(sum, (text:gsub("(%w+)=(%w+)", swap):sub(1, 20)))
