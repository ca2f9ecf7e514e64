-- Loops with iterators that are functions of Lua, compiled: closures, stateless ones, errors, yields, closing values, __call, several in turn.
local function range(n) local i = 0 return function() i = i + 1 if i <= n then return i, i * i, i + .5 end end end
local function step(s, c) c = c + 1 if c <= s then return c, s end end
local function tailed(s, c) return step(s, c) end
local function var(...) local s, c = ... c = c + 1 if c <= s then return c, select('#', ...) end end
local function sum(f, s, c) local t, k = 0, 0 for a, b, d, e in f, s, c do t = t + a + (b or 0) + (d or 0) k = k + 1 assert(e == nil) end return t, k end
for round = 1, 300 do
  assert(sum(range(10)) == 55 + 385 + 60)
  assert(select(2, sum(step, 10, 0)) == 10)
  assert(select(2, sum(tailed, 7, 0)) == 7)
  assert(select(2, sum(var, 5, 0)) == 5)
end
print(sum(range(1000)))
-- closing value
local closed = 0
for i = 1, 200 do for a in range(3), nil, nil, setmetatable({}, {__close = function() closed = closed + 1 end}) do if a == 2 then break end end end
print(closed)
-- errors in iterators, with positions
local function bad(s, c) if c > 40 then error("at " .. c) end return c + 1 end
for i = 1, 50 do local ok, m = pcall(function() for a in bad, nil, 0 do end end) if i == 50 then print(ok, m) end end
print(pcall(function() for a in 5 do end end))
for i = 1, 100 do local ok, m = pcall(function() local f = i < 90 and step or nil for a in f, 3, 0 do end end) if i >= 90 and i < 92 then print(ok, m) end end
-- yields in iterators and bodies
local co = coroutine.wrap(function() for a, b in function(s, c) if c < 300 then coroutine.yield(c) return c + 1, c end end, nil, 0 do if a % 100 == 0 then coroutine.yield(-a) end end return "end" end)
local n, last = 0 repeat last = co() n = n + 1 until last == "end" print(n)
-- __call
local callable = setmetatable({}, {__call = function(self, s, c) if c < s then return c + 1 end end})
for i = 1, 200 do local t = 0 for a in callable, 10, 0 do t = t + a end assert(t == 55) end
-- an iterator that is replaced
local function make(k) if k % 3 == 0 then return next, {1, 2, 3} elseif k % 3 == 1 then return step, 3, 0 else return range(3) end end
local t = 0 for k = 1, 900 do for a in make(k) do t = t + a end end print(t)
-- depth: an iterator that is a loop itself
local function nest(d) if d == 0 then return range(2) end return function(s, c) local r for x in nest(d - 1) do r = x end c = (c or 0) + 1 if c <= 2 then return c + r - r end end end
for i = 1, 30 do local t = 0 for a in nest(3) do t = t + a end assert(t == 3) end
print(debug.traceback("tb", 1):match("tb\nstack traceback:\n.-main chunk"))
for a in function(s, c) if not c then print(debug.traceback("in iterator")) return 1 end end do end
