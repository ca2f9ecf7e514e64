-- Natives that machine code calls by itself: arguments of other types midway, metatables put on, errors with their messages, open lists, collections.
local function sum_bytes(s, from, to)
  local sum = 0
  for i = from, to do sum = sum + (s:byte(i) or 1000) end
  return sum
end
local s = ("abcdefgh"):rep(20)
for _ = 1, 30 do sum_bytes(s, 1, 50) end
print(sum_bytes(s, 1, 160), sum_bytes(s, -10, 170), sum_bytes("", 0, 3))

local function subs(s, n)
  local count, last = 0, ""
  for i = 1, n do
    local k = i % #s + 1
    if s:sub(k, k) == "a" then count = count + 1 end
    last = s:sub(k, k + 2) .. last:sub(1, 8)
  end
  return count, last
end
for _ = 1, 20 do subs(s, 40) end
print(subs(s, 200))
print(subs("xyza", 100))

-- Methods of strings: another one put there, the metatable's __index another table, a function, none.
local function upper_all(list)
  local out = {}
  for i = 1, #list do out[#out + 1] = list[i]:upper() end
  return table.concat(out, ",")
end
local words = {}
for i = 1, 40 do words[i] = "w" .. i % 3 end
for _ = 1, 10 do upper_all(words) end
local upper = string.upper
string.upper = function(s) return "<" .. s .. ">" end
print(#upper_all(words), upper_all({ "a", "b" }))
string.upper = upper
print(upper_all({ "a", "b" }))
string.upper = nil
print(pcall(upper_all, words))
string.upper = upper
local mt = getmetatable("")
mt.__index = { upper = function(s) return s .. "!" end }
print(upper_all({ "a", "b" }))
mt.__index = function(s, key) return function() return key end end
print(upper_all({ "a", "b" }))
mt.__index = nil
print(pcall(upper_all, words))
mt.__index = string
print(upper_all({ "a", "b" }), upper_all({ "a", setmetatable({}, { __index = { upper = function() return "T" end } }), 3 == 3 and "c" }))
print(pcall(upper_all, { "a", 5 }))
print(pcall(upper_all, { "a", true }))

-- Errors of natives: message, position, name of the argument, traceback.
local function byte_at(s, i) return s:byte(i) end
for i = 1, 100 do byte_at("abc", i % 3 + 1) end
print(pcall(byte_at, "abc", {}))
print(pcall(byte_at, "abc", "2"), pcall(byte_at, "abc", 2.0), pcall(byte_at, "abc", "x"))
print(pcall(byte_at, "abc", 1.5))
print(select("#", byte_at("abc", 9)), select("#", byte_at("abc", 1)))
local function calls(f, x, n)
  local r
  for i = 1, n do
    r = math.floor(x) + rawlen(f) + string.len("xy")
  end
  return r
end
for _ = 1, 10 do calls({ 1 }, 2.5, 10) end
print(pcall(calls, 5, 2.5, 10))
print(pcall(calls, {}, "y", 10))
print(pcall(calls, "abc", "7", 10))
local function insert_all(t, n, v)
  for i = 1, n do table.insert(t, v or i) end
  return #t
end
for _ = 1, 10 do insert_all({}, 20) end
print(pcall(insert_all, nil, 3), pcall(insert_all, "x", 3))
print(insert_all({}, 100, "x"), insert_all({ 1, 2, "a" }, 3, 0.5), insert_all({ n = 1 }, 5, {}))
local function traced()
  local r
  for i = 1, 50 do r = rawlen(i < 50 and "abc" or nil) end
  return r
end
print(xpcall(traced, debug.traceback))
print((select(2, xpcall(function()
  for i = 1, 60 do local x = ("abc"):rep(i < 60 and 1 or {}) end
end, debug.traceback)):gsub("\n.*", "")))

-- Tables with metatables: the functions of the library respect them.
local log = {}
local proxy = setmetatable({}, {
  __index = function(_, k) log[#log + 1] = "get " .. tostring(k) return nil end,
  __newindex = function(t, k, v) log[#log + 1] = "set " .. tostring(k) rawset(t, k, v) end,
  __len = function() return 2 end,
})
local function stack(t, n)
  local popped = 0
  for i = 1, n do
    table.insert(t, i)
    table.insert(t, i * 2)
    popped = popped + (table.remove(t) or 0)
  end
  return popped
end
for _ = 1, 10 do stack({}, 20) end
print(stack({}, 50), stack(proxy, 2), table.concat(log, ";"))
local t = {}
for i = 1, 30 do table.insert(t, i) end
setmetatable(t, { __newindex = function(t, k, v) rawset(t, k, v * 100) end })
for i = 1, 3 do table.insert(t, i) end
print(#t, t[30], t[31], t[33], table.remove(t), #t)
local function drain(t)
  local n, last = 0, nil
  while true do
    local v = table.remove(t)
    if v == nil then return n, last end
    n, last = n + 1, v
  end
end
local function filled(n, f)
  local t = {}
  for i = 1, n do t[i] = f(i) end
  return t
end
for _ = 1, 8 do drain(filled(20, function(i) return i end)) end
print(drain(filled(50, function(i) return i end)))
print(drain(filled(50, function(i) return i % 2 == 0 and "x" .. i or i end)))
print(drain({ [0] = "zero", 1, 2 }))

-- Open lists of arguments and results.
local function count(...) return select("#", ...) end
local function second(...) return (select(2, ...)) end
local function last(...) return (select(-1, ...)) end
local function rest(...) return select(3, ...) end
local function total(a, b, ...)
  local s = a + b
  for i = 1, select("#", ...) do
    local x = a + i
    s = s + (select(i, ...)) + x - x
  end
  return s
end
local n = 0
for i = 1, 60 do
  n = n + count() + count(nil, nil) + second(1, 2, 3) + last(i, i + 1) + total(i, 1, i, i + 1) + #tostring(rest(1, 2, 3, 4))
  n = n + string.byte(string.char(string.byte("hello", i % 3 + 1, i % 3 + 2)))
  n = n + #string.sub(tostring(i), 1, (select("#", 1, 2)))
end
print(n, rest(1, 2, 3, 4, 5))
print(pcall(second), pcall(second, 1), pcall(last), pcall(total, 1, 2, "x"))
print(pcall(select, 0, 1), pcall(function(...) for i = -1, -5, -1 do second((select(i, ...))) end end, 1, 2))
local function forwards(f, a, ...)
  local x = a * 2
  return f(x, tostring(x), ...)
end
local function three(a, b, c) return a, b, c end
local out = {}
for i = 1, 40 do out[i] = table.concat({ forwards(three, i, i + 1) }, " ") end
print(out[1], out[40])

-- Values whose types are known only by use: they are in registers when a call with an open list looks at them.
local function mix(n)
  local a, b, c = 1, 0.5, 0
  for i = 1, n do
    a, b, c = a + i, b * 1.5, c + #string.format("%d %g", a, b)
    c = c + count(a, b, three(a, b)) + math.max(a, three(i, 2, 3)) % 7
    if b > 1e6 then b = 0.5 end
  end
  return a, b, c
end
for _ = 1, 5 do mix(20) end
print(mix(100))

-- type, tostring, tonumber, rawequal, rawget, rawset, assert.
local things = { 1, 1.5, "s", true, false, {}, print, function() end, coroutine.create(print), io.stdout }
local function kinds(list, n)
  local t = {}
  for i = 1, n do
    local k = type(list[i])
    rawset(t, k, (rawget(t, k) or 0) + 1)
    assert(rawequal(list[i], list[i]), k)
  end
  local names = {}
  for k in pairs(t) do names[#names + 1] = k .. t[k] end
  table.sort(names)
  return table.concat(names, " ")
end
for _ = 1, 10 do kinds(things, 10) end
print(kinds(things, 10), pcall(kinds, things, 12))
print(pcall(type), pcall(rawset, {}, nil, 1), pcall(rawset, {}, 0 / 0, 1))
local function numbers(n)
  local sum, text = 0, 0
  for i = 1, n do
    local v = i % 3 == 0 and i or i / 4
    text = text + #tostring(v)
    sum = sum + tonumber(tostring(v)) + (tonumber("0x" .. i % 10) or -1) + (tonumber("z") or 0)
  end
  return sum, text
end
for _ = 1, 5 do numbers(20) end
print(numbers(100))
debug.setmetatable(1, { __tostring = function(n) return "number" end, __index = { half = function(n) return n / 2 end } })
print(pcall(numbers, 10))
print(tostring(5), (5):half())
debug.setmetatable(1, nil)
print(numbers(10))

-- Concatenation: numbers, long strings, metamethods midway, what cannot be.
local function joined(list)
  local r = ""
  for i = 1, #list do r = list[i] .. ":" .. i .. "/" .. i / 2 .. ";" end
  return r
end
for _ = 1, 5 do joined(words) end
print(joined({ 1, 2.5, "x" }), joined({ ("y"):rep(10) }), joined({ -0.0, 1e100, math.mininteger }))
print(joined({ 1, setmetatable({}, { __concat = function(a, b) return "meta" .. b end }) }))
print(pcall(joined, { 1, {} }), pcall(joined, { 1, true }))
local function grow(n)
  local r, q = "", ""
  for i = 1, n do
    r = r .. "x"
    q = i .. q .. i
    if #q > 100 then q = "" end
  end
  return #r, q
end
print(grow(20), grow(1000))

-- Order of strings.
local function ordered(list)
  local less, equal = 0, 0
  for i = 1, #list - 1 do
    if list[i] < list[i + 1] then less = less + 1 end
    if list[i] <= list[i + 1] and list[i] >= list[i + 1] then equal = equal + 1 end
    if not (list[i] > list[i + 1]) then less = less + 100 end
  end
  return less, equal
end
for _ = 1, 5 do ordered(words) end
print(ordered(words), ordered({ "", "a", "a\0", "a\0b", "a", "\255", "b" }))
print(ordered({ 1, 2.5, 2, 2 }))
print(pcall(ordered, { "a", 1 }), pcall(ordered, { "a", "b", {} }))
print(ordered({ setmetatable({}, { __lt = function() return true end, __le = function() return false end }), "b", "a" }))

-- Natives that are called in coroutines, and yields around them.
local function generator(s)
  for i = 1, #s do
    local piece = s:sub(i, i) .. s:byte(i)
    coroutine.yield(piece, select("#", s, i, piece))
  end
  return "end"
end
for round = 1, 6 do
  local co, got = coroutine.wrap(generator), {}
  for _ = 1, 8 do got[#got + 1] = (co("abcdefg")) end
  if round == 6 then print(table.concat(got, " ")) end
end
local sorted = coroutine.wrap(function()
  local t = {}
  for i = 1, 50 do table.insert(t, (i * 7919) % 101) end
  table.sort(t, function(a, b) return a < b end)
  coroutine.yield("sorted")
  return t[1], t[50]
end)
print(sorted())

-- The name changes midway.
local f = string.len
local function through(n)
  local sum = 0
  for i = 1, n do
    if i == n // 2 then f = function(s) return #s * 1000 end end
    if i == n // 2 + 2 then f = rawlen end
    sum = sum + f("abc")
  end
  return sum
end
for _ = 1, 5 do f = string.len through(20) end
f = string.len
print(through(200))
f = string.byte
print(through(200))
