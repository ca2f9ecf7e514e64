-- Keys that are integers or floats, remainders of floats, and extra arguments that are selected.
local t = {}
for i = 1, 100 do t[i] = i * i end
local function at(k) return t[k] end
local function put(k, v) t[k] = v end
local keys = { 1, 2.0, 3, 50 / 2, 100, 101, 0, -1, 2.5, 1e300, -0.0, math.huge, 2 ^ 53, math.maxinteger, 99.0 }
local sum = 0
for i = 1, 600 do
  local k = keys[i % #keys + 1]
  local v = at(k)
  if v then sum = sum + v end
  if v then put(k, v + 1) end
end
print(sum, t[25], t[2], #t)
local nan = 0 / 0
for i = 1, 100 do
  assert(at(i % 2 == 0 and nan or 1) == (i % 2 == 1 and t[1] or nil))
  if i > 90 then assert(not pcall(put, nan, 1)) end
end
-- A sort in place whose middle is a float now and then.
local function sort(a, lo, hi)
  while lo < hi do
    local mid, i, j = a[(lo + hi - (lo + hi) % 2) / 2], lo, hi
    while i <= j do
      while a[i] < mid do i = i + 1 end
      while mid < a[j] do j = j - 1 end
      if i <= j then a[i], a[j] = a[j], a[i] i = i + 1 j = j - 1 end
    end
    if j - lo < hi - i then sort(a, lo, j) lo = i else sort(a, i, hi) hi = j end
  end
end
local a, seed = {}, 7
for i = 1, 500 do seed = seed * 16807 % 2147483647 a[i] = seed % 1000 + (i % 3 == 0 and 0.5 or 0) end
sort(a, 1, #a)
for i = 2, #a do assert(a[i - 1] <= a[i]) end
print(a[1], a[250], a[500])

-- Remainders.
local function by(x, y) return x % y end
local function by2(x) return x % 2 end
local function by2f(x) return x % 2.0 end
local function by7(x) return x % 7 end
local function by1(x) return x % 1 end
local function by_half(x) return x % 0.5 end
local function div3(x) return x // 3 end
local xs = {
  0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -4.0, 7.0, 3.5, -3.5, 1e15, 2 ^ 53, 2 ^ 53 + 2, 2 ^ 62, 2 ^ 63, 1e300, -1e300,
  math.huge, -math.huge, 0 / 0, 5, -5, 0, 6, math.maxinteger, math.mininteger, 9007199254740991.0,
}
local function show(v) return v ~= v and "nan" or string.format("%.17g", v) .. (math.type(v) == "integer" and "i" or "") end
local first
for round = 1, 40 do
  local lines = {}
  for _, x in ipairs(xs) do
    local line = { show(by2(x)), show(by2f(x)), show(by7(x)), show(by1(x)), show(by_half(x)), show(div3(x)) }
    for _, y in ipairs(xs) do
      local ok, r = pcall(by, x, y)
      line[#line + 1] = ok and show(r) or "error"
    end
    lines[#lines + 1] = table.concat(line, " ")
  end
  local text = table.concat(lines, "\n")
  assert(not first or first == text)
  first = text
end
print(first)

-- Extra arguments.
local select = select
local function total(...)
  local s = 0
  for i = 1, select("#", ...) do s = s + (select(i, ...)) end
  return s
end
local function any(n, ...) return (select(n, ...)) end
local function count(...) return select("#", ...) end
local function two(...) local x, y = select(2, ...) return x, y end
local function names(...)
  local all = {}
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    all[i] = tostring(v)
  end
  return table.concat(all, ",")
end
local last
for i = 1, 400 do
  local r = {
    total(1, 2, 3), total(), total(1.5, i % 3), any(1, i % 5), any(-1, i, "x"), tostring(any(3, 1, 2)),
    tostring(any(2, nil, nil)), count(), count(nil), count(1, nil, nil), tostring(any("2", 5, 6)),
    tostring(any(2.0, 5, 7)), any("#", 1, 2), names(1, "a", nil, 2.5, true), names(),
  }
  for _, bad in ipairs { 0, -3, "x", 1.5 } do
    local ok, e = pcall(any, bad, 1)
    r[#r + 1] = tostring(ok) .. " " .. tostring(e)
  end
  local x, y = two(1, 2, 3)
  r[#r + 1] = x .. "/" .. y
  if i == 300 then
    select = function() return 42 end
    assert(total(1, 2) == 42 * 42)
    select = _G.select
  end
  last = table.concat(r, " ")
  if i < 4 then print(last) end
end
print(last)
-- In coroutines, with a frame that moves.
local co = coroutine.wrap(function(...)
  for i = 1, 200 do coroutine.yield((select(i % 3 + 1, ...)), (select("#", ...))) end
end)
local s = {}
for i = 1, 200 do
  local v, n = co(10, 20, 30)
  if i > 195 then s[#s + 1] = v .. ":" .. n end
end
print(table.concat(s, " "))

-- Strings as keys of dictionaries: those that are there, that are gone and come again, long ones, made ones, under metatables, and globals by name.
local names = {}
for i = 1, 60 do names[i] = "name" .. i end
for i = 61, 70 do names[i] = ("long "):rep(20) .. i end
local function dictionary()
  local d = {}
  for i = 1, #names do d[names[i]] = i end
  return d
end
local function totals(d, rounds, absent)
  local s, missing = 0, 0
  for _ = 1, rounds do
    for i = 1, #names do
      local v = d[names[i]]
      if v then s = s + v else missing = missing + 1 end
      if d["name" .. i % 70] == nil then missing = missing + 1 end
    end
    if d[absent] then missing = missing + 1000 end
  end
  return s, missing
end
local d = dictionary()
for _ = 1, 4 do totals(d, 5, "nobody") end
print(totals(d, 5, "nobody"))
for i = 1, 70, 3 do d[names[i]] = nil end
print(totals(d, 5, "nobody"))
for i = 1, 70, 6 do d[names[i]] = 0.5 end
print(totals(d, 5, "nobody"))
print(totals(setmetatable(dictionary(), { __index = function(_, k) return 7 end }), 5, "nobody"))
print(totals({ name1 = 1, name2 = 2 }, 5, "name1"))
print(totals({}, 5, 1))
print(pcall(totals, d, 1, nil))
print(pcall(totals, 5, 1, "x"))

local flags = { "flag1", "flag2", "flag3", "flag4", "flag5" }
local function counts(c, words, rounds)
  for _ = 1, rounds do
    for i = 1, #words do
      local w = words[i]
      c[w] = (c[w] or 0) + 1
      c[flags[i % 5 + 1]] = true
    end
  end
  local n, s = 0, 0
  for k, v in pairs(c) do n = n + 1; if v ~= true then s = s + v end end
  return n, s
end
for _ = 1, 4 do counts({}, names, 10) end
print(counts({}, names, 10))
local log = 0
local guarded = setmetatable({}, { __newindex = function(t, k, v) log = log + 1; rawset(t, k, v) end })
print(counts(guarded, names, 10))
print(log)
print(counts(setmetatable({}, { __index = { name9 = 100 }, __mode = "k" }), names, 3))
print(pcall(counts, dictionary(), names, 1))
print(pcall(counts, dictionary(), { 1, 0.5, true }, 3))
print(pcall(counts, dictionary(), { "flag1", "flag2" }, 3))

name1, name2, name3 = 10, 20, 30
local function globals(rounds)
  local s = 0
  for i = 1, rounds do
    local k = names[i % 3 + 1]
    s = s + name1 + name2 + name3
    _G[k] = i
    s = s + _G[k] * 1000
    if i % 50 == 0 then _G[k] = nil; _G[k] = 1 end
  end
  return s, name1, name2, name3
end
for _ = 1, 5 do globals(60) end
print(globals(60))
name1, name2, name3 = nil, nil, nil
