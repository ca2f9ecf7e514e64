-- Numbers that are integers at one time and floats at another: sums that begin with 0, values that a way makes floats,
-- zeros with signs, integers that no float is, remainders below zero, and whatever reads such a number besides
-- arithmetic: keys, fields, calls, strings, upvalues, tables, coroutines, errors.
local floats, ints, mixed = {}, {}, {}
for i = 1, 40 do
  floats[i] = i * 0.25
  ints[i] = i
  mixed[i] = i % 3 == 0 and i or i + 0.5
end

local function sum(list, n)
  local s = 0
  for i = 1, n do s = s + list[i] end
  return s
end
local function sum_down(list, n)
  local s = 0
  for i = n, 1, -1 do s = s - list[i] end
  return s
end
local function sum_squares(list, n)
  local s = 0
  for _, v in ipairs(list) do s = s + v * v end
  return s, n
end
for n = 0, 40, 4 do
  for _, list in ipairs { floats, ints, mixed } do
    for _ = 1, 30 do sum(list, n); sum_down(list, n); sum_squares(list, n) end
    print(n, sum(list, n), sum_down(list, n), sum_squares(list, n))
  end
end

-- An integer until a way makes it a float, and the other way round.
local function collatz(n)
  local x, length = n, 1
  while x ~= 1 do
    local r = x % 2
    if r == 0 then x = (x - r) * 0.5 else x = 3 * x + 1 end
    length = length + 1
  end
  return length, x
end
local function floored(n)
  local x, s = n, 0
  while x >= 1 do
    x = x / 2
    if x % 1 == 0 then x = math.tointeger(x) end
    s = s + x
  end
  return x, s
end
for i = 1, 200 do collatz(i); floored(i) end
print(collatz(27))
print(collatz(64))
print(collatz(1))
for i = 60, 68 do print(floored(i)) end

-- Zeros: an integer has no sign, a float keeps it.
local function zeros(n, f)
  local p, m, r, d = 1, 0, 7, 0
  for i = 1, n do
    if i > n - 2 then p = p * f else p = p * -1 * (i % 2) end
    m = -p
    r = (m - i) % 2
    d = d + p * 0
  end
  return p, m, r, d, 1 / (p + 0.0), 1 / (m + 0.0), 1 / (d + 0.0)
end
for _ = 1, 50 do zeros(5, 0.5); zeros(6, 2) end
print(zeros(5, 0.5))
print(zeros(5, -0.5))
print(zeros(5, 2))
print(zeros(6, -2))
print(zeros(6, 0.0))
print(zeros(6, -0.0))
print(zeros(6, 0))

-- Integers that no float is: sums, products and comparisons are those of integers.
local function grows(start, step, n)
  local x = start
  for i = 1, n do
    if i % 7 == 6 then x = x + 0.0 end
    if i % 7 == 0 then x = math.tointeger(x) or start end
    x = x + step
  end
  return x, math.type(x)
end
for _ = 1, 60 do grows(0, 3, 40) end
print(grows(0, 3, 40))
print(grows((1 << 53) - 20, 3, 4))
print(grows((1 << 53) - 20, 3, 40))
print(grows((1 << 53), 1, 3))
print(grows(math.maxinteger - 3, 1, 5))
print(grows(-(1 << 53) - 1, -1, 5))
local function powers(n, f)
  local x, y = 1, 3
  for i = 1, n do
    x = x * 10
    y = y * (i == n and f or 7)
  end
  return x, y, x < y, x == y, x <= y
end
for _ = 1, 60 do powers(10, 1); powers(10, 0.5) end
for n = 14, 24 do print(n, powers(n, 7), powers(n, 0.5)) end
local function compared(a, b)
  local x, less, same = a, 0, 0
  for i = 1, 20 do
    if i == 10 then x = x + 0.0 end
    if x < b then less = less + 1 end
    if x == b then same = same + 1 end
    if b <= x then less = less + 100 end
    if x ~= 3 then same = same + 100 end
    if x > 2.5 then less = less + 10000 end
  end
  return less, same
end
for _ = 1, 40 do compared(1, 2); compared(3, 3); compared(3, 2.5) end
print(compared(1, 2))
print(compared(3, 3))
print(compared(1 << 53, (1 << 53) + 1))
print(compared((1 << 53) + 1, (1 << 53)))
print(compared(-1, 0 / 0))
print(compared(2, math.huge))

-- Remainders, quotients and powers of both kinds.
local function rests(x, n)
  local r, q, p, b = 0, 0, 0, 0
  for i = 1, n do
    r = r + x % 5
    q = q + (x // 4)
    p = p + x ^ 2
    b = b + x / 8
    if i % 3 == 0 then x = x - 0.5 else x = x - 1 end
    if x % 1 == 0 then x = math.tointeger(x) end
  end
  return x, r, q, p, b
end
for _ = 1, 40 do rests(10, 30) end
for x = -3, 3 do print(rests(x, 30)) end
print(rests(-0.0, 1))

-- Whatever else reads it.
local function read(n, f)
  local s, t, names = 0, {}, {}
  local function seen() return s end
  local plain = 0
  for i = 1, n do
    plain = plain + (i == n and f or 1)
    t[plain] = i
    t.last = plain
    names[#names + 1] = plain .. "/" .. tostring(plain) .. math.type(plain):sub(1, 1)
    s = s + plain
    if type(plain) ~= "number" or not plain then error("never") end
    local copy = plain
    t[i] = select(2, pcall(function(...) return ... end, copy))
  end
  local keys = 0
  for _ in pairs(t) do keys = keys + 1 end
  return plain, keys, t.last, names[#names], names[1], seen(), t[n], #t
end
for _ = 1, 30 do read(5, 1); read(5, 0.5) end
print(read(5, 1))
print(read(5, 0.5))
print(read(5, 1.0))

local function generator(n, f)
  return coroutine.wrap(function()
    local s = 0
    for i = 1, n do
      s = s + (i == n - 1 and f or i)
      coroutine.yield(s)
    end
    return -s
  end)
end
for _ = 1, 30 do
  local g = generator(6, 0.5)
  for _ = 1, 7 do g() end
end
for _, f in ipairs { 0.5, 2, 2.0 } do
  local g = generator(6, f)
  print(g(), g(), g(), g(), g(), g(), g())
end

local function fails(n, f)
  local total = 0
  for i = 1, n do
    total = total + (i == 3 and f or 1)
    if i == n then total = total .. nil end
  end
end
for _ = 1, 30 do pcall(fails, 4, 1); pcall(fails, 4, 0.5) end
print(pcall(fails, 4, 1))
print(pcall(function()
  local x = 0
  for i = 1, 300 do
    x = x + 0.5
    if i == 299 then x = x + {} end
  end
end))
print(pcall(function()
  local x = 1
  for i = 1, 300 do
    x = x * 1.5
    if i == 290 then x = 7 elseif i > 290 then x = x | 1 end
    if i == 299 then x = 2 ^ 60 + 0.5; x = x & 2.5 end
  end
end))

-- Nested loops whose sums are carried on, and loops within that never come round.
local function nested(n, m)
  local all, least, most = 0, math.huge, 0
  for i = 1, n do
    local s = 0
    for j = 1, i % m do s = s + j * 0.5 end
    all = all + s
    if s < least then least = s end
    if s > most then most = s end
  end
  return all, least, most
end
for m = 1, 5 do
  for _ = 1, 10 do nested(30, m) end
  print(nested(30, m))
end
