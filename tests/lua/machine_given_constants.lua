-- Functions that are built in place of their calls are given constants: divisors, limits, flags. What is known of them
-- is what the functions say of other values.

local seed = 2024
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local function rest(x, k) return x % k end
local function part(x, k) return x // k end
local function both(x, k) return x // k * k + x % k end
local function power(x, k) return x ^ k end
local function scaled(x, k) return (x << k) + (x >> k) end

local total = 0
for i = 1, 2000 do
  total = total + random(10) + random(7) * 10 + random(3000) + random(1) + random(4096)
  total = total + rest(-i, 7) + rest(i, 8) + part(-i, 7) + part(i, 8) + both(i, 13) - both(-i, 16)
  total = total + scaled(i, 3) + scaled(i, 0)
end
print(total, seed)

-- Divisors that are not above zero, or floats; dividends of both kinds.
local function each(f, values, ...)
  local out = {}
  for i = 1, #values do
    local ok, r = pcall(f, values[i], ...)
    out[i] = ok and tostring(r) or "error"
  end
  return table.concat(out, " ")
end
local values = { 7, -7, 0, 2.5, -2.5, math.maxinteger, math.mininteger, 1e300, -0.0, 1 / 0 }
local function negative(x) return rest(x, -3), part(x, -3) end
local function zero(x) return rest(x, 0) end
local function zeros(x) return part(x, 0) end
local function least(x) return rest(x, math.mininteger) end
local function minus(x) return part(x, -1) + rest(x, -1) end
local function half(x) return rest(x, 0.5) end
local function three(x) return rest(x, 3.0) end
local function five(x) return part(x, 5.0) end
local function large(x) return rest(x, 1 << 62) end
for _ = 1, 40 do
  for _, f in ipairs { negative, zero, zeros, least, minus, half, three, five, large } do each(f, values) end
end
for _, f in ipairs { negative, zero, zeros, least, minus, half, three, five, large } do print(each(f, values)) end
local s = 0.0
for i = 1, 3000 do s = s + rest(i + 0.5, 7) + rest(-i * 0.25, 3) + part(i * 1.5, 4) + rest(i * 1.0, 1) end
print(string.format("%.3f", s))

-- Conditions of what is given: one way is never taken, and the other may be a loop, a return, or an error.
local function choose(x, how)
  if how == 1 then return x + 1 end
  if how == 2 then return -x end
  if how > 2 and how <= 4 then
    local sum = 0
    for i = 1, how do sum = sum + i * x end
    return sum
  elseif how < 0 then
    error("below")
  end
  while how ~= 0 do how = how - 1; x = x + how end
  return x
end
local c = 0
for i = 1, 1000 do
  c = c + choose(i, 1) + choose(i, 2) + choose(i, 3) + choose(i, 4) * 2 + choose(i, 0) + choose(i, 7)
end
print(c)
local function below(i) if i % 100 == 0 then return choose(i, -1) end return choose(i, 2) end
local failed = 0
for i = 1, 1000 do
  local ok, r = pcall(below, i)
  if not ok then failed = failed + 1 else c = c + r end
end
print(c, failed)

-- A variable that is a constant until a loop changes it, and one that is not.
local function grows(n)
  local k, fixed, sum = 3, 5, 0
  for i = 1, n do
    sum = sum + i % k + i // fixed
    if i % 10 == 0 then k = k + 1 end
    if k == 6 then k = 3 end
  end
  return sum, k, fixed
end
for i = 1, 30 do grows(i * 10) end
print(grows(1000))

-- Recursion whose argument is given at its bottom.
local function down(n, step) if n <= 0 then return 0 end return n % step + down(n - step, step) end
local d = 0
for i = 1, 300 do d = d + down(12, 3) + down(i % 9, 2) + down(0, 1) end
print(d)

-- What is made of constants alone, to the ends of the integers; and loops between them.
local function made(w, h) return w * h + w - h, (w & h) | (w ~ h), w + 1, h - 1 end
local function sums()
  local a, b, c, d = made(6, 7)
  local e, f, g, h = made(math.maxinteger, 2)
  local i, j, k, l = made(math.mininteger, -1)
  return a + b + c + d, e, f, g, h, i, j, k, l
end
local function rounds()
  local low, high, n = 3, 2, 0
  for i = low, high do n = n + 100 * i end
  for i = 1, 4 do n = n + i end
  for i = high, low do n = n + i * 10 end
  for i = 5, 1, -2 do n = n + i end
  for i = math.maxinteger - 1, math.maxinteger do n = n + (i & 1) end
  return n
end
local r = 0
for _ = 1, 300 do r = r + rounds() end
for _ = 1, 200 do sums() end
print(r, sums())
