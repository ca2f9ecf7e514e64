-- Calls whose results are the end of a list of arguments, or of what is returned: nearly always one value, now and
-- then none, two, or one of another kind. Machine code takes them for one, and has to notice.
local insert, sqrt, concat = table.insert, math.sqrt, table.concat

local function values(i)
  if i % 50 == 49 then return i, i + 1 end
  if i % 70 == 69 then return end
  return i
end
local function count(...) return select("#", ...) end
local function first(a, b) return a, b end
local function passes(i) return "x", values(i) end
local function sum(...)
  local s = 0
  for n = 1, select("#", ...) do s = s + (select(n, ...) or 0) end
  return s
end

local counted, summed, seconds, passed = 0, 0, 0, 0
for i = 1, 700 do
  counted = counted + count(values(i)) * 3 + count(i, values(i))
  summed = summed + sum(i, values(i))
  local _, b = first(values(i))
  if b then seconds = seconds + b end
  passed = passed + count(passes(i))
end
print(counted, summed, seconds, passed)

-- Natives that take the list: in line, by their quick form, by a call.
local function large(i) if i == 650 then return 1e300 * 1e300 end return i + 0.25 end
local roots, list = 0.0, {}
local function value(i) if i % 97 == 96 then return nil, "none" end return i end
for i = 1, 700 do
  if i ~= 650 then roots = roots + sqrt(large(i)) end
  if i % 97 ~= 96 then insert(list, value(i)) end
end
print(string.format("%.6f", roots), #list, list[1], list[#list])

-- An error names the function that was given too few, or the wrong ones.
local function tried(i) return sqrt(values(i)) end
local wrong = {}
for i = 1, 210 do
  local ok, message = pcall(tried, i)
  if not ok then wrong[#wrong + 1] = i .. ": " .. message:gsub("^.-:", "") end
end
print(#wrong, wrong[1], wrong[#wrong])

-- The callee is of another kind now and then: a native, an object that is called, a coroutine's function.
local object = setmetatable({}, { __call = function(_, i) return i, i end })
local function pick(i)
  if i % 60 == 59 then return object end
  if i % 80 == 79 then return math.abs end
  return values
end
local kinds = 0
for i = 1, 700 do kinds = kinds + count(pick(i)(i)) end
print(kinds)

local generate = coroutine.wrap(function()
  local i = 0
  while true do
    i = i + 1
    if i % 40 == 0 then coroutine.yield(i, i) else coroutine.yield(i) end
  end
end)
local taken = 0
for _ = 1, 500 do taken = taken + count(generate()) end
print(taken)

-- In place of each other, and across a yield in the middle of the list.
local function inner(i) if i % 90 == 89 then coroutine.yield("yields") end return values(i) end
local function middle(i) return inner(i) end
local co = coroutine.wrap(function()
  local total = 0
  for i = 1, 500 do total = total + count(middle(i)) + count(i, inner(i)) end
  return total
end)
local got, yields = co(), 0
while got == "yields" do got, yields = co(), yields + 1 end
print(got, yields)

-- A list of lists: every call ends one and is the end of another.
local function twice(...) return ... end
local deep = 0
for i = 1, 400 do deep = deep + count(twice(twice(values(i)))) + sum(first(twice(i, values(i)))) end
print(deep)
print(concat({ tostring(values(3)), tostring(sqrt(values(16))) }, " "))
