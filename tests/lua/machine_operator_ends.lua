-- How functions end that operators call: with no value, with several, by tail calls of natives and of functions of
-- Lua, from within coroutines, for results that are stored, decide a jump, or are of no interest.
local rounds = 200

local V = {}
V.__index = V
local function v(x) return setmetatable({ x = x }, V) end
-- Too large to be built in place of what calls them.
local function work(a) local s = 0 for k = 1, 3 do s = s + a.x * k end return s end
V.__add = function(a, b) local s = work(a) + work(b) return v(s) end
V.__sub = function(a, b) work(a) return v(a.x - b.x) end
V.__mul = function(a, b) work(a) end
V.__div = function(a, b) work(a) return a, b, 3 end
V.__unm = function(a) work(a) return false end
V.__mod = function(a, b) work(a) return tostring(a.x % b.x) end
V.__pow = function(a, b) work(a) return setmetatable({ x = a.x + b }, V) end
V.__eq = function(a, b) work(a) return a.x == b.x and "yes" end
V.__lt = function(a, b) work(a) if a.x < b.x then return 1, 2 end end
V.__le = function(a, b) work(a) if a.x <= b.x then return "at most" end return nil end
V.__concat = function(a, b) local s = (type(a) == "table" and work(a) or a) return "<" .. s .. ">" end
V.__call = function(self, n) work(self) return self.x + n, n end
V.__len = function(a) work(a) return a.x end

local function all(i)
  local a, b = v(i % 7), v(i % 5)
  local sum, difference, none, first = a + b, a - b, a * b, a / b
  local not_a, rest, power = -a, i % 5 ~= 0 and a % b or "none", a ^ 2
  local r = 0
  if a == b then r = r + 1 end
  if a ~= b then r = r + 2 end
  if a < b then r = r + 4 end
  if not (a < b) then r = r + 8 end
  if a <= b then r = r + 16 end
  if a > b then r = r + 32 else r = r + 64 end
  local less = a < b
  local x, y = a(i)
  return sum.x, difference.x, none, first == a, not_a, rest, power.x, r, less, #a, a .. "!", x, y
end
local last
for i = 1, rounds do
  last = table.pack(all(i))
  if i % 20 == 0 then
    for k = 1, last.n do last[k] = tostring(last[k]) end
    print(i, table.concat(last, " ", 1, last.n))
  end
end

-- Keys that tables lack.
local log = {}
local proxy = setmetatable({}, {
  __index = function(t, k) local s = 0 for n = 1, 3 do s = s + n end if k == "none" then return end return k, s end,
  __newindex = function(t, k, value) for n = 1, 3 do log[n] = value end if value % 2 == 0 then return value, k end end,
})
local function access(i)
  local a, b = proxy.field, proxy.none
  proxy[i] = i
  proxy.other = i + 1
  return a, b, proxy[i], rawlen(log)
end
for i = 1, rounds do
  if i % 50 == 0 then print(access(i), log[1]) else access(i) end
end

-- Types that change, results that were of one type.
local kind = setmetatable({}, { __index = function(t, k)
  for n = 1, 2 do local _ = n end
  if k % 50 == 0 then return nil end
  if k % 30 == 0 then return "text" end
  if k % 2 == 0 then return k end
  return k + 0.5
end })
local kinds = {}
local function read(i) local x = kind[i] kinds[tostring(math.type(x) or type(x))] = (kinds[tostring(math.type(x) or type(x))] or 0) + 1 return x end
for i = 1, rounds do read(i) end
print(kinds.integer, kinds.float, kinds["nil"], kinds.string)

-- Operators that wait, and that fail.
local W = {}
local function w(x) return setmetatable({ x = x }, W) end
W.__add = function(a, b) for n = 1, 2 do local _ = n end coroutine.yield(a.x) return w(a.x + b.x) end
W.__lt = function(a, b) for n = 1, 2 do local _ = n end if a.x % 9 == 0 then coroutine.yield("nine") end return a.x < b.x end
W.__index = function(t, k) for n = 1, 2 do local _ = n end if k == 13 then error("unlucky", 0) end return k end
local function steps(n)
  local s, less = w(0), 0
  for i = 1, n do
    s = s + w(1)
    if s < w(50) then less = less + 1 end
    local ok, why = pcall(function() return s[i] end)
    if not ok then less = less + 1000; coroutine.yield(why) end
  end
  return "end", s.x, less
end
local sums, texts = 0, {}
local co = coroutine.wrap(steps)
local value, x, less = co(rounds)
while value ~= "end" do
  if type(value) == "number" then sums = sums + value else texts[value] = (texts[value] or 0) + 1 end
  value, x, less = co()
end
print(sums, texts.nine, texts.unlucky, x, less)

-- Sorting by an operator, and through natives.
local list = {}
for i = 1, 60 do list[i] = v(i * 37 % 61) end
table.sort(list)
local texts = {}
for i, item in ipairs(list) do texts[i] = item.x end
print(table.concat(texts, " "))
