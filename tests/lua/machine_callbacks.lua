-- Functions that natives call, as machine code: results, errors, yields, arguments of all numbers.
local function records(n)
  local t, s = {}, 7
  for i = 1, n do
    s = s * 16807 % 2147483647
    t[i] = { key = s % 1000, name = "n" .. s % 100 }
  end
  return t
end
local function by_key(a, b) return a.key < b.key end
for _ = 1, 5 do
  local t = records(200)
  table.sort(t, by_key)
  for i = 2, #t do assert(t[i - 1].key <= t[i].key) end
end

-- More results than are wanted, fewer, and none.
local function sorted(less)
  local t = { 5, 3, 9, 1, 7, 2, 8 }
  for _ = 1, 40 do
    t = { 5, 3, 9, 1, 7, 2, 8 }
    table.sort(t, less)
  end
  return table.concat(t, " ")
end
print(sorted(function(a, b) return a < b, "more", "and more" end))
print(sorted(function(a, b) if a < b then return 1 end end))
print(sorted(function(a, b) if a > b then return true end return end))
print(sorted(function(...) local a, b = ... return a < b end))
print(sorted(function(a, b, c) return c == nil and a < b end))

-- Errors, with their places, and what they leave.
local calls = 0
local function fails(a, b)
  calls = calls + 1
  if calls % 500 == 0 then error("call " .. calls) end
  return a.key < b.key
end
local told = {}
for _ = 1, 12 do
  local t = records(60)
  local ok, e = pcall(table.sort, t, fails)
  if not ok then told[#told + 1] = e:gsub("^.-:", "") end
end
print(#told, told[1], told[2])
print(select(2, pcall(table.sort, { 1, 2, "x", 4 }, function(a, b) return a < b end)))
print(select(2, pcall(table.sort, { 3, 2, 1, 4, 5 }, function() return true end)) ~= nil)

-- Coroutines within them.
local inside = {}
table.sort(inside, by_key)
for _ = 1, 30 do
  table.sort(records(30), function(a, b)
    local gen = coroutine.wrap(function() coroutine.yield(a.key) coroutine.yield(b.key) end)
    return gen() < gen()
  end)
end

-- gsub, with all that its function may give.
local count = 0
local function replace(w)
  count = count + 1
  if count % 3 == 0 then return nil elseif count % 3 == 1 then return w:upper() end
  return false
end
local last
for _ = 1, 60 do last = ("one two three four five six"):gsub("%a+", replace) end
print(last, count)
print(pcall(string.gsub, "a b", "%a", function() return {} end))

-- Message handlers, __gc, __close, tostring.
local function handler(e) return "handled: " .. tostring(e) end
for _ = 1, 80 do last = select(2, xpcall(error, handler, 42)) end
print(last)
local N = { __tostring = function(self) return "N" .. self.n end, __name = "N" }
for i = 1, 90 do last = tostring(setmetatable({ n = i }, N)) end
print(last)
local closed = 0
local C = { __close = function(o, e) closed = closed + o.n + (e and 1 or 0) end }
for i = 1, 90 do
  local x <close> = setmetatable({ n = i }, C)
  pcall(function() local y <close> = setmetatable({ n = 1 }, C) if i % 2 == 0 then error("e") end end)
end
print(closed)

-- The stack, as a function that a native has called sees it.
local depth
local function looks(a, b)
  depth = 0
  while debug.getinfo(depth + 1, "S") do depth = depth + 1 end
  local own = debug.getinfo(1, "Sl")
  return own.what == "Lua" and debug.getinfo(2, "S").what == "C" and a < b
end
for _ = 1, 30 do table.sort({ 3, 1, 2 }, looks) end
local first = depth
table.sort({ 3, 1, 2 }, looks)
print(first == depth)

-- One that calls natives that call one.
local function nested(a, b)
  local t = { b, a }
  table.sort(t, function(x, y) return x.key < y.key end)
  return t[1] == a and a.key ~= b.key
end
local t = records(40)
table.sort(t, nested)
for i = 2, #t do assert(t[i - 1].key <= t[i].key) end
print("done")
