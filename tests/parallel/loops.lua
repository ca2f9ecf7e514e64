-- Parallel loops: every index once, order where it is promised, errors, nesting.
local pl = require "perilune"
local pool = pl.pool.new { workers = 3 }

local function first_line(s) return (tostring(s):match "^[^\n]*") end

for _, chunk in ipairs { false, 1, 7, 1000 } do
  local hits = pl.array("i32", 1000)
  pool:parallel_for(1, 1000, function(i) hits:add(i, 1) end, chunk and { chunk = chunk } or nil)
  local wrong = 0
  for i = 1, 1000 do if hits[i] ~= 1 then wrong = wrong + 1 end end
  print(chunk, wrong)
end
pool:parallel_for(1, 0, error)
pool:parallel_for(5, 5, function(i) assert(i == 5) end)
local edge = pl.atomic(0)
pool:parallel_for(math.maxinteger - 2, math.maxinteger, function() edge:add(1) end)
pool:parallel_for(math.mininteger, math.mininteger + 2, function() edge:add(1) end)
print(edge:load())

-- reductions keep order
print(pool:parallel_reduce(1, 26, "", function(i) return string.char(96 + i) end, function(a, b) return a .. b end))
print(pool:parallel_reduce(1, 10000, 0, function(i) return i end, function(a, b) return a + b end, { chunk = 13 }))
print(pool:parallel_reduce(1, 0, "none", error, error))

-- prefixes: a list, an array, an operator that does not commute
local list = {}
for i = 1, 100 do list[i] = i end
local sums = pool:parallel_scan(list, function(a, b) return a + b end)
print(#sums, sums[1], sums[2], sums[50], sums[100])
local a = pl.array("i64", list)
local r = pool:parallel_scan(a, function(a, b) return a + b end)
print(r, r[100])
local words = pool:parallel_scan({ "a", "b", "c", "d", "e", "f", "g" }, function(a, b) return a .. b end)
print(table.concat(words, " "))
print(#pool:parallel_scan({}, error))

-- find
print(pool:parallel_find(1, 100000, function(i) return i * i > 5000 and i * i end))
print(pool:parallel_find(1, 100, function() return false end))

-- map and sort
print(table.concat(pool:map({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, function(x) return x * x end), " "))
print(#pool:map({}, error))
local t, seed = {}, 42
for i = 1, 1000 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  t[i] = seed % 500
end
pool:sort(t)
local sorted = true
for i = 2, 1000 do sorted = sorted and t[i - 1] <= t[i] end
print(sorted, t[1], t[1000])
pool:sort(t, function(a, b) return a > b end)
print(t[1], t[1000])
local f = pl.array("f64", 50)
for i = 1, 50 do f[i] = (i * 37) % 50 end
pool:sort(f)
print(f[1], f[25], f[50])
-- records stay the same tables, with few and with many workers
for _, workers in ipairs { 1, 2, 7 } do
  local wide = pl.pool.new { workers = workers }
  local records, known = {}, {}
  for i = 1, 100 do
    records[i] = { key = i * 37 % 50 }
    known[records[i]] = true
  end
  wide:sort(records, function(a, b) return a.key < b.key end)
  local same, ordered = true, true
  for i = 1, 100 do
    same = same and known[records[i]]
    known[records[i]] = nil
    ordered = ordered and (i == 1 or records[i - 1].key <= records[i].key)
  end
  print(same, ordered, #records, next(known))
  print(pcall(wide.sort, wide, {}, error), select("#", wide:sort { {} }))
  print(select(2, pcall(wide.sort, wide, { {}, {} })):match "attempt to compare two table values")
  local mixed = { { 2 }, { 1 } }
  local first = mixed[2]
  wide:sort(mixed, function(a, b) return a[1] < b[1] end)
  print(mixed[1] == first)
  wide:close()
end

-- errors: the lowest index that was raised, once, and nothing runs afterwards
for round = 1, 5 do
  local ok, e = pcall(function()
    pool:parallel_for(1, 100, function(i) if i >= 40 then error("body " .. i) end end, { chunk = 100 })
  end)
  print(ok, first_line(e))
end
local running = pl.atomic(0)
local ok, e = pcall(function()
  pool:parallel_for(1, 10000, function(i)
    running:add(1)
    if i == 5 then error({ index = i }) end
    local x = 0
    for k = 1, 1000 do x = x + k end
    running:sub(1)
  end)
end)
local now = running:load()
pl.sleep(0.02)
print(ok, type(e) == "table" and e.index, running:load() == now)

-- nested
local cells = pl.array("i32", 100)
pool:parallel_for(1, 10, function(i)
  pool:parallel_for(1, 10, function(j) cells:add((i - 1) * 10 + j, i * j) end)
end)
print(cells:sum())
print(pool:async(function() return (pool:parallel_reduce(1, 100, 0, function(i) return i end, function(a, b) return a + b end)) end):await())
print(pcall(function() pool:parallel_for(1, 2, print, { chunk = 0 }) end))
print(pcall(function() pool:parallel_for(1, 2) end))
pool:close()
