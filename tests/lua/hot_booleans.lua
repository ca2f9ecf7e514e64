-- Loops over arrays of booleans: tests, stores of constants and of whatever comes, appends, iterators; arrays of several
-- kinds in one place, and arrays that stop being ones of booleans while a loop runs.
local function show(t)
  local s = {}
  for i = 1, #t do s[i] = t[i] == true and "T" or t[i] == false and "F" or tostring(t[i]) end
  return table.concat(s, " ")
end

local function fill(n, v)
  local t = {}
  for i = 1, n do t[i] = v end
  return t
end
local function sieve(n)
  local composite, count = fill(n, false), 0
  for i = 2, n do
    if not composite[i] then
      count = count + 1
      for j = i * i, n, i do composite[j] = true end
    end
  end
  return count, composite
end
for n = 10, 300, 30 do
  local count, t = sieve(n)
  print(n, count, #t, t[n], t[n + 1])
end

-- A flag, tested in every way.
local function tests(t, n)
  local a, b, c, d, e, f = 0, 0, 0, 0, 0, 0
  for i = 1, n do
    if t[i] then a = a + 1 end
    if not t[i] then b = b + 1 end
    if t[i] == true then c = c + 1 end
    if t[i] ~= false then d = d + 1 end
    local v = t[i] and i or -i
    e = e + v
    local w = t[i]
    local no = not w
    while w do f = f + 1; w = no end
  end
  return a, b, c, d, e, f
end
local function thirds(n)
  local t = {}
  for i = 1, n do t[i] = i % 3 == 0 end
  return t
end
for _ = 1, 20 do tests(thirds(30), 30) end
print(tests(thirds(30), 30))
print(tests(thirds(30), 33))
print(tests({ true, 0, nil, false, "" }, 5))
print(tests(setmetatable(thirds(5), { __index = function(_, k) return k > 6 end }), 8))

-- Values that are carried from round to round, passed, returned, kept in variables that are captured, in fields.
local function carried(t, n)
  local last, changes, kept = false, 0, {}
  local function get() return last end
  for i = 1, n do
    local v = t[i]
    if v ~= last then changes = changes + 1 end
    last = v
    kept.last = v
    kept[i] = get()
  end
  return last, changes, kept.last, show(kept)
end
for _ = 1, 20 do carried(thirds(12), 12) end
print(carried(thirds(12), 12))
local function pick(t, i, j) return t[i], t[j], t[i] == t[j] end
local function picks(t, n)
  local same = 0
  for i = 1, n - 1 do
    local x, y, equal = pick(t, i, i + 1)
    if equal then same = same + 1 end
    t[i], t[i + 1] = y, x
  end
  return same, show(t)
end
for _ = 1, 20 do picks(thirds(12), 12) end
print(picks(thirds(12), 12))

-- Stores of values of which nothing is known.
local function store(t, values, n)
  for i = 1, n do t[i] = values[i] end
  return show(t)
end
local unknown = {}
for i = 1, 16 do unknown[i] = (i % 4 ~= 0) end
unknown.name = 1
for _ = 1, 30 do store(fill(16, false), unknown, 16) end
print(store(fill(16, false), unknown, 16))
unknown[9] = 9
print(store(fill(16, false), unknown, 16))
unknown[9] = "nine"
print(store(fill(16, false), unknown, 16))
unknown[9] = nil
local t = fill(16, true)
store(t, unknown, 16)
print(t[8], t[9], t[10])
local function toggle(t, n)
  for i = 1, n do t[i] = not t[i] end
end
local toggled = thirds(20)
for _ = 1, 31 do toggle(toggled, 20) end
print(show(toggled))
local function flip(t, key, v) t[key] = v end
for round = 1, 200 do flip(toggled, round % 20 + 1, round % 7 == 0) end
print(show(toggled))
for round, v in ipairs { 1, 2.5, "x", false, print } do
  local own = thirds(8)
  for i = 1, 50 do flip(own, i % 8 + 1, true) end
  flip(own, 3, v)
  print(round, own[3] == v, own[2], own[4], #own)
end
local own = thirds(8)
flip(own, 8, nil)
flip(own, 2, nil)
print(own[8], own[7], own[2], own[1], own[3])
print(pcall(flip, own, nil, true), pcall(flip, nil, 1, true))

-- Appends, with and without other values.
local function append(n, v, other, at)
  local t = {}
  for i = 1, n do
    if i == at then t[#t + 1] = other else t[#t + 1] = v end
  end
  return t
end
for _ = 1, 20 do append(40, true) end
print(#append(40, true), show(append(9, false)))
for _, other in ipairs { 1, 0.5, "x", true, false, append } do
  for _, at in ipairs { 1, 2, 5, 17 } do
    local t = append(20, true, other, at)
    print(#t, t[at] == other, t[at - 1], t[at + 1], t[20])
  end
end
local function compared(n)
  local t = {}
  for i = 1, n do t[#t + 1] = i > n / 2 end
  for i = n, 1, -1 do if i % 2 == 0 then t[#t] = nil end end
  return t
end
for _ = 1, 20 do compared(20) end
print(show(compared(20)))

-- Iterators.
local function iterate(t)
  local yes, no, sum = 0, 0, 0
  for i, v in ipairs(t) do
    if v then yes = yes + 1 else no = no + i end
  end
  for k, v in pairs(t) do
    if v then sum = sum + k end
  end
  for k, v in next, t do
    if v == false then sum = sum - k end
  end
  return yes, no, sum
end
for _ = 1, 20 do iterate(thirds(25)) end
print(iterate(thirds(25)))
print(iterate { true, 1, 2.5, "x", false })
print(iterate { 1, 2, 3 })
print(iterate { 1.5, false })
print(iterate {})

-- Arrays of all kinds in one place.
local kinds = { thirds(10), {}, {}, {}, thirds(10) }
for i = 1, 10 do kinds[2][i] = i; kinds[3][i] = i / 4; kinds[4][i] = i % 2 == 0 and "even" or { i } end
local function read(list, i)
  local n, last = 0
  for k = 1, #list do
    local v = list[k][i]
    if v then n = n + 1 end
    if type(v) == "number" then n = n + v end
    last = v
  end
  return n, last
end
for _ = 1, 30 do for i = 1, 10 do read(kinds, i) end end
for i = 0, 11 do print(i, read(kinds, i)) end
local two = { thirds(6), { 1, 2, 3, 4, 5, 6 }, thirds(6), { 6, 5, 4, 3, 2, 1 } }
local function truths(list)
  local n, values = 0, {}
  for round = 1, 24 do
    local row = list[round % #list + 1]
    local v = row[round % 6 + 1]
    if v then n = n + 1 end
    values[round] = tostring(v)
  end
  return n, table.concat(values, " ")
end
for _ = 1, 30 do truths(two) end
print(truths(two))
two[3][2] = "text"
print(truths(two))
two[2] = { 0.5, 1.5, 2.5, 3.5, 4.5, 5.5 }
print(truths(two))
local function write(list, n)
  for round = 1, n do
    local row = list[round % #list + 1]
    row[round % 6 + 1] = round % 2 == 0
  end
end
for _ = 1, 5 do write(two, 48) end
for i = 1, 4 do print(show(two[i])) end

-- An array that a loop reads becomes another's kind within.
local function changes(t, n, at, v)
  local seen = {}
  for i = 1, n do
    if i == at then t[n] = v end
    seen[i] = tostring(t[i])
    if t[i] then seen[i] = seen[i] .. "!" end
  end
  return table.concat(seen, " ")
end
for _ = 1, 30 do changes(thirds(12), 12, 5, true) end
for _, v in ipairs { 1, 1.5, "x", true, false } do
  for _, at in ipairs { 1, 6, 12 } do print(changes(thirds(12), 12, at, v)) end
end
local function emptied(n)
  local t = thirds(n)
  for i = n, 1, -1 do t[i] = nil end
  for i = 1, n do t[i] = i end
  local sum = 0
  for i = 1, n do sum = sum + t[i] end
  for i = n, 1, -1 do t[i] = nil end
  for i = 1, n do t[i] = i % 2 == 1 end
  return sum, show(t)
end
for n = 1, 40 do emptied(n) end
print(emptied(9))

-- Constructors.
local function made(a, b)
  local t = { a, b, not a }
  local u = { true, false, a }
  local m = { true, 1, a }
  return show(t), show(u), show(m), #{ a, nil, b }
end
for _ = 1, 100 do made(true, false) end
print(made(true, false))
print(made(false, "b"))
print(made(nil, 1))

-- Keys that are floats, or out of range, or no numbers at all.
local function keyed(t, keys)
  local s = {}
  for i = 1, #keys do s[i] = tostring(t[keys[i]]) end
  return table.concat(s, " ")
end
for _ = 1, 50 do keyed(thirds(6), { 1, 2, 3, 4, 5, 6 }) end
print(keyed(thirds(6), { 1, 3.0, 2.5, 7, 0, -1, "1", true, math.maxinteger, math.mininteger, 6 }))
local half = thirds(8)
for i = 1, 60 do local k = i % 8 + 1.0; half[k] = not half[k] end
print(show(half))
