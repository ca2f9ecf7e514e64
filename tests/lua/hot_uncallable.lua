-- Calls of what is no function: numbers that hot code has in registers, where a function was before.
local function id(x) return x end
local calls = 0
local function callee(...) calls = calls + 1 return ... end
local object = { f = 3, g = 0.5, m = 7 }

local function tail(t) callee() return t.f(1) end
local function method(t) callee() return t:m() end
local function float(t) callee() return t.g(1) end
local function plain(t) callee() local r = t.f(1) return r end
local function computed(n) callee() return (n + 1)(1) end
local function protected(n) local ok, e = pcall(n + 1) return e end
for _, f in ipairs { tail, method, float, plain } do
  local failures, last = 0, nil
  for i = 1, 300 do
    local ok, e = pcall(f, object)
    if not ok then failures = failures + 1 last = e end
  end
  print(failures, last)
end
local failures, last = 0, nil
for i = 1, 300 do
  local ok, e = pcall(computed, i)
  if not ok then failures = failures + 1 last = e end
end
print(failures, last, protected(1))
for i = 1, 300 do last = protected(i) end
print(last, calls)

-- The same where it is a function at first, and the function's slot lies where the number is to be.
local function either(t, i)
  local f = t[i]
  return f(i)
end
local list = {}
for i = 1, 400 do list[i] = i % 100 ~= 0 and id or i end
local sum, bad = 0, 0
for i = 1, 400 do
  local ok, v = pcall(either, list, i)
  if ok then sum = sum + v else bad = bad + 1 end
end
print(sum, bad)
