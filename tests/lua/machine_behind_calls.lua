-- Two variables hold the same value on every way that has been taken while the program was recorded, and not on
-- the way that comes later. That way is interpreted until a call on it, which is machine code, comes back: who
-- goes on behind the call must not take the variables for the same.
local function sum(n)
  local s = 0
  for i = 1, n do s = s + i end
  return s
end

local function tables(a, b, same, n)
  local x
  if same then x = a else x = b end
  local r = sum(n)
  return a[1] * 10 + x[1], a.name .. x.name, #a + #x, r
end

local function functions(f, g, same, n)
  local h
  if same then h = f else h = g end
  local r = sum(n)
  return f(r) * 1000 + h(r)
end

local function three(a, b, c, which, n)
  local x, y = a, a
  if which == 1 then x = b elseif which == 2 then y = c end
  local r = sum(n)
  x[2] = r
  y[3] = r + 1
  return a[2] + a[3] + x[2] + x[3] + y[2] + y[3]
end

local function in_loops(a, b, from, n)
  local x, total = a, 0
  for i = 1, n do
    if i >= from then x = b end
    total = total + sum(2) + a[1] * 10 + x[1]
  end
  return total
end

local upper = { 1, 2 }
local function of_variables(other, same, n)
  local x
  if same then x = upper else x = other end
  local r = sum(n)
  return upper[1] * 10 + x[1] + r - r
end

local A, B, C = { 1, name = "a" }, { 2, 3, name = "b" }, { 4, 5, 6, name = "c" }
local function double(x) return x * 2 end
local function triple(x) return x * 3 end
local checks = {}
for i = 1, 4000 do
  local same = i < 2000 or i % 7 ~= 0
  local v, names, lengths = tables(A, B, same, 3 + i % 5)
  local w = functions(double, triple, same, 2 + i % 3)
  local which = i < 2000 and 0 or i % 3
  local t = three({ 1, 0, 0 }, { 2, 0, 0 }, { 3, 0, 0 }, which, 4)
  local l = in_loops(A, B, i < 2000 and 99 or 5 + i % 3, 8)
  local u = of_variables(B, same, 3)
  local key = table.concat({ v, names, lengths, w, t, l, u }, " ")
  checks[key] = (checks[key] or 0) + 1
end
local keys = {}
for key in pairs(checks) do keys[#keys + 1] = key end
table.sort(keys)
for _, key in ipairs(keys) do print(key, checks[key]) end
