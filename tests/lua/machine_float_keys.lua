-- Floats that are keys of several elements: machine code makes a number of each once, and goes by it.

local function check(what, ...)
  print(what, ...)
end

-- A butterfly: one float is a key of two arrays, read and written, beside an integer.
local function butterfly(re, im, n)
  local half = n / 2
  for k = 1, n // 2 do
    local q = k + half
    local x, y = re[q] * 0.5 - im[q], re[q] + im[q] * 0.25
    re[q], im[q] = re[k] - x, im[k] - y
    re[k], im[k] = re[k] + x, im[k] + y
  end
end
local re, im = {}, {}
for i = 1, 64 do re[i], im[i] = i + 0.5, -i * 0.25 end
for _ = 1, 60 do
  butterfly(re, im, 64)
  for i = 1, 64 do re[i], im[i] = re[i] % 97, im[i] % 89 end
end
local sum = 0.0
for i = 1, 64 do sum = sum + re[i] * i + im[i] end
check("butterfly", string.format("%.6f", sum))

-- What is no integer is no element, and what is out of range is none either.
local function both(a, b, x)
  local first, second = a[x], b[x]
  if first == nil then return second == nil and "none" or second end
  return first + (second or 1000)
end
local a, b = { 1, 2, 3, 4 }, { 10, 20, 30, 40, [2.5] = 7 }
for _ = 1, 200 do both(a, b, 2.0) end
for _, x in ipairs { 1.0, 4.0, 5.0, 0.0, -0.0, -1.0, 2.5, 3.5, 2.0 ^ 53, 2.0 ^ 63, -2.0 ^ 63, 2.0 ^ 64, 1e300, -1e300, 1 / 0, -1 / 0, 0 / 0, 1e-300, 4294967297.0, 4294967296.0 } do
  check("both", string.format("%.1f", x), both(a, b, x))
end

-- Stores: over what is there, behind the end, far behind it, of nil, and with keys that are none.
local function store(t, u, x, v)
  t[x] = v
  u[x] = v
  return t[x], u[x], #t
end
local t, u = { 1, 2, 3 }, { 0.5, 1.5, 2.5 }
for i = 1, 200 do store(t, u, 2.0, i) end
for _, x in ipairs { 1.0, 3.0, 4.0, 5.0, 6.0, 9.0, 7.0, 0.0, -3.0, 2.5, 2.0 ^ 53, 2.0 ^ 63, 1 / 0 } do
  check("store", string.format("%.1f", x), store(t, u, x, x))
end
check("store nil", store(t, u, 7.0, nil))
check("store nil", store(t, u, 2.5, nil))
check("not a number", pcall(store, t, u, 0 / 0, 1))
check("undefined", pcall(store, t, u, 2.0, 1))

-- Keys of which the integers are told apart from equal floats by nobody.
local function twice(t, x)
  t[x] = (t[x] or 0) + 1
  return t[x]
end
local counts = {}
for i = 1, 300 do twice(counts, i % 10 + 1.0) end
for i = 1, 50 do twice(counts, i % 10 + 1) end
local keys = {}
for k, v in pairs(counts) do keys[#keys + 1] = math.type(k) .. k .. "=" .. v end
table.sort(keys)
check("keys", table.concat(keys, " "))

-- A float that changes from round to round, and that two ways make.
local function walk(t, n)
  local x, s = 1.0, 0
  for i = 1, n do
    if i % 3 == 0 then x = x + 2 else x = x + 1.0 end
    if x > #t then x = x - #t end
    local y = x
    s = s + t[x]
    if i % 7 == 0 then t[y] = t[x] + 1 end
    s = s + t[y]
    x = x % 50 + 1
    s = s + t[x]
  end
  return s, x
end
local w = {}
for i = 1, 64 do w[i] = i end
check("walk", walk(w, 3000))

-- An integer at one time and a float at another.
local function mixed(t, x, n)
  local s = 0
  for i = 1, n do
    s = s + t[x] + t[x]
    if i % 2 == 0 then x = x / 2 else x = x * 2 // 1 end
    if x ~= x // 1 or x < 1 or x > #t then x = 4 end
  end
  return s, x
end
check("mixed", mixed(w, 4, 500))
check("mixed", mixed(w, 4.0, 501))

-- Somebody else has the variable, too.
local function shared(t)
  local x = 1.0
  local function advance() x = x + 1 end
  local s = 0
  for _ = 1, 60 do
    s = s + t[x]
    advance()
    s = s * 3 % 1009 + t[x]
  end
  return s, x
end
for _ = 1, 20 do shared(w) end
check("shared", shared(w))

-- The table is another one, or becomes one, between two uses of a key.
local function swap(t, u, x, n)
  local s = 0
  for i = 1, n do
    s = s + t[x]
    t, u = u, t
    s = s + t[x]
    if i == n - 5 then u[x] = "12" end
    if i == n - 3 then t[#t + 1] = 0.5 end
    s = s + t[x]
  end
  return s
end
check("swap", swap({ 1, 2, 3 }, { 0.5, 0.25, 0.125 }, 2.0, 400))

-- Metatables answer for what is not there, under the float.
local asked = {}
local proxy = setmetatable({ 5, 6 }, {
  __index = function(_, k) asked[#asked + 1] = math.type(k) .. k return 100 end,
  __newindex = function(t, k, v) asked[#asked + 1] = "=" .. math.type(k) .. k rawset(t, k, v) end,
})
local function ask(p, x)
  local s = p[x] + p[x]
  p[x] = s
  return s
end
for _ = 1, 100 do proxy[1] = 5 ask(proxy, 1.0) end
check("proxy", ask(proxy, 3.0), ask(proxy, 2.5), ask(proxy, 3.0), ask(proxy, 2.0))
check("asked", table.concat(asked, " "))
