-- Tail calls of functions that are built in place of their calls: delegates whose targets are small, large, several in
-- turn, of variable arguments, natives, or absent; as functions, methods and metamethods; with any number of results.
local function small(x) return x + 1 end
local function other(x) return x * 2 end
local function large(x)
  local s = 0
  for i = 1, 3 do s = s + x * i end
  return s
end
local function many(...) return select("#", ...), ... end
local function none() end

local targets = { small, other, large, small, other }
local function delegate(f, x) return f(x) end
local function to_large(x) return large(x) end
local function to_large_again(x) return to_large(x) end
local function to_many(a, b) return many(a, b, nil) end
local function to_none(x) return none(x) end
local function to_one_of(n, x)
  if n % 3 == 0 then return large(x) elseif n % 3 == 1 then return small(x) end
  return many(x)
end
local function deep(n, x)
  if n == 0 then return large(x) end
  return deep(n - 1, x + 1)
end

local sum, counts = 0, 0
for i = 1, 600 do
  sum = sum + delegate(targets[i % 5 + 1], i) + to_large_again(i)
  local n, a, b, c = to_many(i, "b")
  assert(n == 3 and a == i and b == "b" and c == nil)
  local x, y = to_none(i)
  assert(x == nil and y == nil)
  local p, q = to_one_of(i, i)
  sum = sum + p + (q or 0)
  counts = counts + select("#", to_one_of(i, i)) + select("#", to_none(i)) + select("#", delegate(small, i))
  sum = sum + large(to_large(i)) + small(delegate(other, i)) + deep(i % 7, i)
  to_one_of(i, i)
end
print(sum, counts)

-- Methods that pass on, along several classes.
local Inner = {}
Inner.__index = Inner
function Inner:get(k) for i = 1, 2 do k = k + self.by end return k end
function Inner:both() return self.by, -self.by end
local Outer = {}
Outer.__index = Outer
function Outer:get(k) return self.inner:get(k) end
function Outer:both() return self.inner:both() end
local function outer(by) return setmetatable({ inner = setmetatable({ by = by }, Inner) }, Outer) end
local o, t = outer(3), 0
local nested = setmetatable({ inner = o }, Outer)
for i = 1, 500 do
  local x, y = nested:both()
  t = t + o:get(i) + nested:get(i) + x * y
end
print(t)

-- Metamethods that make tail calls: of operators, comparisons, reads and stores.
local log = {}
local function add(a, b) for _ = 1, 1 do log.add = (log.add or 0) + 1 end return a.v + b.v end
local function less(a, b) for _ = 1, 1 do log.less = (log.less or 0) + 1 end return a.v < b.v end
local function read(t, k) for _ = 1, 1 do log.read = (log.read or 0) + 1 end return k .. "!" end
local function write(t, k, v) for _ = 1, 1 do log.write = (log.write or 0) + 1 end rawset(t, "last", v) end
local M = {
  __add = function(a, b) return add(a, b) end,
  __lt = function(a, b) return less(a, b) end,
  __le = function(a, b) return less(a, b) end,
  __index = function(t, k) return read(t, k) end,
  __newindex = function(t, k, v) return write(t, k, v) end,
}
local a, b = setmetatable({ v = 1 }, M), setmetatable({ v = 2 }, M)
rawset(a, "last", 0)
local n, less_than = 0, 0
for i = 1, 400 do
  n = n + (a + b)
  if a < b then less_than = less_than + 1 end
  if b <= a then less_than = less_than + 1000 end
  a.field = i
  assert(a.other == "other!")
end
print(n, less_than, a.last, log.add, log.less, log.read, log.write)

-- An error behind tail calls, and one in a delegate whose target is no function.
local function fails(x) for i = 1, 1 do if x == 300 then error("at " .. x) end end return x end
local function to_fails(x) return fails(x) end
local function run(f) local r = 0 for i = 1, 400 do r = r + f(i) end return r end
print(pcall(run, to_fails))
print(pcall(run, function(x) return delegate(x < 350 and small or nil, x) end))

-- A coroutine that yields behind a tail call, and goes on.
local function yields(x) for i = 1, 1 do if x % 50 == 0 then x = coroutine.yield(x) end end return x end
local function to_yields(x) return yields(x) end
local co = coroutine.wrap(function()
  local s = 0
  for i = 1, 300 do s = s + to_yields(i) + 1 end
  return "done", s
end)
local got = co()
while type(got) == "number" do
  local next, s = co(got * 2)
  if s then print(next, s) end
  got = next
end

-- More arguments than parameters, and fewer.
local function three(p, q, r) for i = 1, 1 do p = p or "p" end return tostring(p) .. tostring(q) .. tostring(r) end
local function to_three(...) return three(...) end
local function with_one(x) return three(x) end
local function with_five(x) return three(x, 2, 3, 4, 5) end
local text
for i = 1, 300 do text = with_one(i) .. with_five(i) .. to_three() .. to_three(i, i) end
print(text)
