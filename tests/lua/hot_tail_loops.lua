-- Functions that go on with themselves by tail calls: loops, to machine code. Arguments of changing types, fewer and more of them, other functions in their place, errors, tracebacks, yields, interrupts by hooks.
local function sum(i, acc) if i == 0 then return acc end return sum(i - 1, acc + i) end
print(sum(100000, 0), sum(1000, 0.5), sum(10, 0))

-- Parameters that change places, and are used for each other.
local function swap(n, a, b) if n == 0 then return a, b end return swap(n - 1, b, a) end
print(swap(10001, "x", { 1 } and 2))
local function gcd(a, b) if b == 0 then return a end return gcd(b, a % b) end
local all = 0
for i = 1, 3000 do all = all + gcd(i * 12, 360 + i) end
print(all)
local function fib(n, a, b) if n == 0 then return a end return fib(n - 1, b, a + b) end
print(fib(80, 0, 1), fib(200, 0, 1.0), fib(3000, 0, 1))

-- Fewer and more arguments than parameters.
local function fewer(n, a, b) if n == 0 then return a, b end if n % 2 == 0 then return fewer(n - 1, n) end return fewer(n - 1, n, n, n) end
print(fewer(5001), fewer(5000, 1, 2))

-- Types that change on the way.
local function grow(n, v)
  if n == 0 then return v end
  if n == 500 then return grow(n - 1, v + 0.5) end
  if n == 250 then return grow(n - 1, tostring(v)) end
  return grow(n - 1, v)
end
for _ = 1, 20 do grow(2000, 1) end
print(grow(2000, 1), grow(600, "s" and 3), math.type(grow(400, 7)))

-- Another function in its place, and another closure of the same one.
local f
f = function(n, s) if n == 0 then return s end return f(n - 1, s + 1) end
print(f(20000, 0))
local first = f
f = function(n, s) return "other", n, s end
print(first(20000, 0))
local function make(k, next_one)
  local own
  own = function(n, s)
    if n == 0 then return s end
    if n % 1000 == 0 and next_one then return next_one(n - 1, s + k) end
    return own(n - 1, s + k)
  end
  return own
end
print(make(1)(20000, 0), make(2, make(3))(20000, 0))

-- Methods, and functions of a table.
local Stack = {}
Stack.__index = Stack
function Stack:pop(n) if n == 0 then return #self end self[#self] = nil return self:pop(n - 1) end
local st = setmetatable({}, Stack)
for i = 1, 5000 do st[i] = i end
print(st:pop(4000))
local list = nil
for i = 1, 5000 do list = { head = i, tail = list } end
local function fold(l, acc) if not l then return acc end return fold(l.tail, acc + l.head) end
for _ = 1, 5 do all = fold(list, 0) end
print(all)

-- Errors name the place; tail calls show.
local function fails(n) if n == 0 then error "at the end" end return fails(n - 1) end
print(pcall(fails, 20000))
local function adds(n, t) if n == 0 then return t + 1 end return adds(n - 1, t) end
print(pcall(adds, 20000, {}))
local function trace(n) if n == 0 then return (debug.traceback("here", 1):gsub("\n%s*%[C%]: in %?", "")) end return trace(n - 1) end
print((trace(20000)))
local function info(n) if n == 0 then local i = debug.getinfo(1, "tl") return i.istailcall, i.currentline end return info(n - 1) end
print(info(0), info(20000))

-- Yields on the way.
local co = coroutine.wrap(function()
  local function go(n, s) if n % 5000 == 0 then s = s + coroutine.yield(s) end if n == 0 then return s end return go(n - 1, s + 1) end
  return go(20000, 0)
end)
print(co(), co(10), co(10), co(10), co(10), co(10))

-- Loops around and within.
local function nested(n, s)
  for i = 1, 10 do s = s + i end
  if n == 0 then return s end
  return nested(n - 1, s)
end
print(nested(3000, 0))
local function inner(n, s)
  while true do
    s = s + 1
    if s % 7 == 0 then
      if n == 0 then return s end
      return inner(n - 1, s)
    end
  end
end
print(inner(3000, 0))

-- Variables that functions refer to, and those to be closed, keep a frame of their own.
local fs = {}
local function capture(n) local v = n if n % 1000 == 0 then fs[#fs + 1] = function() v = v + 1 return v end end if n == 0 then return #fs end return capture(n - 1) end
print(capture(5000), fs[1](), fs[1](), fs[2](), fs[6]())

-- A count hook comes through.
local counted = 0
debug.sethook(function() counted = counted + 1 end, "", 1000)
sum(20000, 0)
debug.sethook()
print(counted > 50)
local function forever(n) return forever(n + 1) end
debug.sethook(function() error("stopped", 0) end, "", 100000)
print(pcall(forever, 0))
debug.sethook()
