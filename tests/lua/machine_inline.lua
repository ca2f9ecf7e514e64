-- Small functions in place of their calls: errors, tracebacks, yields, other callees, variables shared with the caller.

local function check(name, ...) print(name, ...) end

-- An error in an inlined function names its place and its callers.
do
  local function inner(t, k) return t.field[k] + 1 end
  local function outer(t, k) return inner(t, k) * 2 end
  local good = { field = { 1, 2, 3 } }
  local sum = 0
  for i = 1, 300 do sum = sum + outer(good, i % 3 + 1) end
  check("sum", sum)
  check("nil field", pcall(outer, {}, 1))
  check("nil element", pcall(outer, good, 4))
  local text = select(2, xpcall(outer, debug.traceback, good, 9))
  check("traceback", (text:gsub("\n%s*%[C%].*", ""):gsub("\t", " ")))
end

-- The callee changes.
do
  local function add(a, b) return a + b end
  local function times(a, b) return a * b end
  local function apply(f, a, b) return f(a, b) end
  local s = 0
  for i = 1, 500 do s = s + apply(add, i, 2) end
  for i = 1, 500 do s = s + apply(times, i, 2) end
  for i = 1, 500 do s = s + apply(i % 2 == 0 and add or math.max, i, 2) end
  for i = 1, 100 do s = s + apply(setmetatable({}, { __call = function(_, a, b) return a - b end }), i, 2) end
  check("callees", s)
end

-- Variables that both sides assign.
do
  local count, last = 0, nil
  local function note(x) count = count + 1; last = x; return count end
  local s = 0
  for i = 1, 400 do
    local before = count
    s = s + note(i) - before
    if i % 100 == 0 then count = count + 10 end
    if last ~= i then error("stale") end
  end
  check("shared", s, count, last)
  local t = { 1 }
  local function swap(u) local old = t; t = u; return old end
  for i = 1, 400 do
    local old = swap({ i })
    if t[1] ~= i or (i > 1 and old[1] ~= i - 1) then error("stale table") end
    t[1] = t[1] + 0
  end
  check("tables", t[1])
end

-- Fewer and more arguments than parameters; no results wanted; none given.
do
  local function three(a, b, c) return c == nil and (b or a) or c end
  local function none() end
  local s = 0
  for i = 1, 300 do
    s = s + three(i) + three(i, 2) + three(i, 2, 3) + three(i, 2, 3, 4)
    none(i)
    local nothing = none()
    if nothing ~= nil then error("something") end
  end
  check("arguments", s)
end

-- Yields out of inlined functions, and errors caught around them.
do
  local yield = coroutine.yield
  local function give(x) if x % 50 == 0 then yield(x) end return x end
  local function twice(x) return give(x) + give(x + 1) end
  local co = coroutine.wrap(function()
    local s = 0
    for i = 1, 200 do s = s + twice(i) end
    return "end", s
  end)
  local got = {}
  repeat
    local what, s = co()
    got[#got + 1] = tostring(what) .. (s and ":" .. s or "")
  until what == "end"
  check("yields", table.concat(got, " "))
  local function risky(x) if x % 97 == 0 then error("at " .. x, 0) end return x end
  local failed = {}
  for i = 1, 400 do
    local ok, e = pcall(function() return risky(i) + risky(i + 1) end)
    if not ok then failed[#failed + 1] = e end
  end
  check("caught", table.concat(failed, ", "))
end

-- Recursion, to its end and beyond.
do
  local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
  check("fib", fib(20))
  local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
  for _ = 1, 20 do deep(50) end
  check("deep", deep(15000))
  local function endless(n) return 1 + endless(n + 1) end
  local ok, e = pcall(endless, 1)
  check("endless", ok, (tostring(e):gsub("%s*%(.*", "")))
end

-- Methods, with the class changed on the way, and metamethods in the inlined function.
do
  local Class = {}
  Class.__index = Class
  function Class:get() return self.x end
  function Class:step(d) self.x = self.x + d; return self end
  local o = setmetatable({ x = 0 }, Class)
  for i = 1, 300 do o:step(i % 3) end
  check("method", o:get())
  function Class:step(d) self.x = self.x - d; return self end
  for i = 1, 300 do o:step(i % 3) end
  check("other method", o:get())
  o.step = function(self, d) self.x = d; return self end
  for i = 1, 300 do o:step(i) end
  check("own method", o:get())
  local V = { __add = function(a, b) return setmetatable({ v = a.v + b.v }, getmetatable(a)) end }
  V.__index = function(_, k) return k == "zero" and 0 or nil end
  local function plus(a, b) return a + b end
  local v = setmetatable({ v = 0 }, V)
  local one = setmetatable({ v = 1 }, V)
  for i = 1, 300 do v = plus(v, one); v.v = v.v + v.zero end
  check("metamethods", v.v)
end

-- Tail calls with as many arguments as there are.
do
  local function pick(n, ...) return select(n, ...) end
  local function three(a, b, c) return a + b * 10 + c * 100 end
  local function two() return 2, 3 end
  local function through(a) return three(a, two()) end
  local s = 0
  for i = 1, 300 do s = s + through(i % 7) + pick(2, i, 5) end
  check("tail", s)
  local function loop(n, acc) if n == 0 then return acc end return loop(n - 1, acc + n) end
  check("tail loop", loop(100000, 0))
end

-- Hooks and debug.sethook see calls again.
do
  local function leaf(x) return x + 1 end
  local function run() local s = 0 for i = 1, 300 do s = s + leaf(i) end return s end
  run()
  local calls = 0
  debug.sethook(function() calls = calls + 1 end, "c")
  run()
  debug.sethook()
  check("hooked", calls >= 301)
  local function where() return debug.getinfo(2, "l").currentline end
  local lines = {}
  for i = 1, 300 do lines[where()] = (lines[where()] or 0) + 1 end
  local n = 0
  for _ in pairs(lines) do n = n + 1 end
  check("lines", n)
end
