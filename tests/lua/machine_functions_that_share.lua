-- Functions that are made one after the other share variables: each variable has one upvalue, however the functions
-- come to be made, and each round of a loop has its own.

local id = debug.upvalueid

-- Three functions, two variables; the second pair of variables is of an inner block.
local function account(start)
  local balance, moves = start, 0
  local function deposit(x) balance = balance + x; moves = moves + 1 end
  local function withdraw(x)
    if x > balance then return false end
    balance = balance - x
    moves = moves + 1
    return true
  end
  local function report() return balance, moves end
  return deposit, withdraw, report
end

local total, all = 0, 0
for i = 1, 300 do
  local deposit, withdraw, report = account(i)
  deposit(i % 7)
  withdraw(i % 5)
  withdraw(1e6)
  local b, m = report()
  total, all = total + b, all + m
  assert(id(deposit, 1) == id(report, 1) and id(withdraw, 1) == id(report, 1))
  assert(id(deposit, 2) == id(report, 2) and id(deposit, 1) ~= id(deposit, 2))
end
print(total, all)

-- Each round has variables of its own; what is made in it shares them, whichever way it comes to be made.
local function rounds(n)
  local out = {}
  for i = 1, n do
    local x, y = i, -i
    local get = function() return x, y end
    local set = function(a) x = a end
    if i % 3 == 0 then
      local z = i * 10
      local both = function() z = z + 1; return x + z end
      set(both())
    elseif i % 3 == 1 then
      set = function(a) y = a end
      set(i * 2)
    end
    local late = function() return x * 1000 + y end
    out[i] = { get, set, late }
  end
  return out
end
local sum = 0
for _ = 1, 20 do
  local list = rounds(9)
  for i = 1, #list do
    local a, b = list[i][1]()
    sum = sum + a * 3 + b + list[i][3]()
    for k = i + 1, #list do assert(id(list[i][1], 1) ~= id(list[k][1], 1)) end
    assert(id(list[i][1], 1) == id(list[i][3], 1) and id(list[i][1], 2) == id(list[i][3], 2))
  end
end
print(sum)

-- A loop of `goto`: a variable that is over, and another one in its register.
local function again(n)
  local made = {}
  local i = 0
  ::top::
  do
    local v = i
    local inc, get = function() v = v + 1 end, function() return v end
    inc()
    made[#made + 1] = get
    i = i + 1
    if i < n then goto top end
  end
  local s = 0
  for k = 1, #made do s = s * 3 + made[k]() end
  return s
end
for _ = 1, 50 do again(5) end
print(again(6))

-- Functions that name themselves and each other, one that is stored before the next is made, many upvalues.
local function family(n)
  local even, odd
  even = function(k) if k == 0 then return true end return odd(k - 1) end
  odd = function(k) if k == 0 then return false end return even(k - 1) end
  local function fact(k) if k < 2 then return 1 end return k * fact(k - 1) end
  local a, b, c, d, e, f = 1, 2, 3, 4, 5, 6
  local t = { function() a = a + b; return a end, function() return a + b + c + d end }
  t[3] = function() e = e + a + b + c + d + f; return e end
  t.none = function() return n end
  return even(n), odd(n), fact(n % 10), t[1]() + t[2]() + t[3]() + t[1](), t.none()
end
for i = 1, 100 do family(i) end
print(family(20))

-- A collection in between, a function that is dropped before the next one is made, and a weak table that sees it.
local weak = setmetatable({}, { __mode = "k" })
local function dropped(i)
  local v = { i }
  local f = function() return v end
  weak[f] = true
  f = nil
  if i % 10 == 0 then collectgarbage() end
  local g = function() return v[1] end
  local h = function(x) v = { x } end
  h(i + 1)
  return g()
end
local s = 0
for i = 1, 200 do s = s + dropped(i) end
collectgarbage()
print(s, next(weak))

-- In coroutines, whose variables are on their own stacks, and over when they end.
local function producer(n)
  local count = 0
  local step, get
  local co = coroutine.wrap(function()
    for i = 1, n do
      local x = i
      step = function() x = x + 1; count = count + x end
      get = function() return x, count end
      coroutine.yield()
      step()
    end
  end)
  local r = 0
  for _ = 1, n do
    co()
    step()
    local x, c = get()
    r = r + x * 2 + c
    assert(id(step, 1) == id(get, 1) and id(step, 2) == id(get, 2))
  end
  return r
end
for _ = 1, 30 do producer(4) end
print(producer(8))

-- Upvalues that are joined, and closed by an error.
local function joined(i)
  local x, y = i, i * 2
  local f, g = function() return x end, function() return y end
  debug.upvaluejoin(f, 1, g, 1)
  y = y + 1
  local h = function() return x, y end
  local a, b = h()
  return f() + g() * 2 + a * 3 + b * 5
end
local j = 0
for i = 1, 100 do j = j + joined(i) end
print(j)
local kept
local ok = 0
for i = 1, 100 do
  local good = pcall(function()
    local v = i
    kept = function() v = v + 1; return v end
    local other = function() return v end
    if i % 4 == 0 then error("no") end
    v = other() * 2
  end)
  ok = ok + (good and kept() or -kept())
end
print(ok)
