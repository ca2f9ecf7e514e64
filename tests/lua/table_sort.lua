-- table.sort: uniform arrays, comparators, order of equals, invalid orders, yields.
local function check(t, f)
  f = f or function(a, b) return a < b end
  for i = #t, 2, -1 do assert(not f(t[i], t[i - 1])) end
end
local x = 12345
local function random(n) x = (x * 1103515245 + 12345) % 2147483648 return x % n end

for _, n in ipairs {0, 1, 2, 3, 4, 5, 10, 100, 101, 1000, 5000} do
  local ints, floats, strings, mixed, same = {}, {}, {}, {}, {}
  for i = 1, n do
    ints[i] = random(n) - n // 2
    floats[i] = random(n) / 7
    strings[i] = tostring(random(n)) .. "\0" .. i % 3
    mixed[i] = i % 2 == 0 and random(n) or random(n) / 2
    same[i] = 1
  end
  for _, t in ipairs {ints, floats, strings, mixed, same} do
    table.sort(t) check(t)
    table.sort(t, function(a, b) return a > b end) check(t, function(a, b) return a > b end)
    table.sort(t) check(t)
  end
end
-- the order of equal elements is that of the algorithm
local records = {}
for i = 1, 60 do records[i] = {key = i % 5, id = i} end
table.sort(records, function(a, b) return a.key < b.key end)
local ids = {}
for i, r in ipairs(records) do ids[i] = r.id end
print(table.concat(ids, " "))
local count = 0
local t = {}
for i = 1, 1000 do t[i] = random(1000) end
table.sort(t, function(a, b) count = count + 1 return a < b end)
print("comparisons", count)
local zeros = {0.0, -0.0, 1.0, -0.0, 0.0, -1.0}
table.sort(zeros) for i = 1, 6 do io.write(zeros[i], " ") end print()

local function msg(f, ...)
  local ok, e = pcall(f, ...)
  print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ ")))
end
for _, n in ipairs {2, 3, 4, 5, 10, 50} do
  local t = {}
  for i = 1, n do t[i] = i end
  msg(table.sort, t, function() return true end)
end
msg(table.sort, {1, "x"}) msg(table.sort, {{}, {}}) msg(table.sort, {1, 2, nil, 4}, 5) msg(table.sort, 1) msg(table.sort, {3, 1}, {})
msg(table.sort, {1, 2, 3}, function() error("inside") end)
msg(table.sort, setmetatable({}, {__len = function() return math.maxinteger end}))
local objects = {}
local mt = {__lt = function(a, b) return a.v < b.v end}
for i = 1, 20 do objects[i] = setmetatable({v = random(100)}, mt) end
table.sort(objects) check(objects)
-- a comparator that changes the table
local victim = {}
for i = 1, 100 do victim[i] = i end
pcall(table.sort, victim, function(a, b) victim[1] = nil collectgarbage("step") return (a or 0) < (b or 0) end)
print("done")
