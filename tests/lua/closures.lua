-- Closures, upvalues shared and fresh, in loops of every kind.
local function counter() local n = 0; return function() n = n + 1; return n end, function() return n end, function(v) n = v end end
local inc, get, set = counter(); local inc2 = counter()
print(inc(), inc(), get(), inc2(), set(10), inc(), inc2())
local fs = {}
for i = 1, 3 do fs[i] = function() i = i + 10; return i end end
print(fs[1](), fs[1](), fs[2](), fs[3](), fs[1]())
for k, v in pairs({ 5 }) do fs[k] = function() return k, v end end print(fs[1]())
local i = 0; local ws = {}
while i < 3 do local j = i; ws[#ws + 1] = function() j = j + 1; return i, j end; i = i + 1 end
print(ws[1](), ws[2](), ws[3]()); print(ws[1]())
local rs = {}; local k = 0
repeat local j = k; rs[#rs + 1] = function() return j end; k = k + 1 until j >= 2
print(rs[1](), rs[2](), rs[3]())
-- goto making a loop: a fresh variable each time round
local gs = {}
do local n = 1
  ::top::
  local x = n * 10
  gs[n] = function() x = x + 1; return x end
  n = n + 1
  if n <= 3 then goto top end
end
print(gs[1](), gs[1](), gs[2](), gs[3]())
-- nested levels
local function l1(a) return function(b) return function(c) return function(d) a = a + 1; b = b + a; return a, b, c, d end end end end
local f = l1(1)(2)(3); print(f(4)); print(f(5)); local g = l1(1)(2)(3); print(g(6))
-- two closures share, also after the scope is gone, and after the frame moved
local function pair() local s = "init"; local function deep(n) if n == 0 then return s end return (deep(n - 1)) end; return function(v) s = v end, function() return deep(50) end end
local w, r = pair(); w("changed"); print(r()); w(nil); print(r())
-- parameters and varargs captured
local function cap(a, ...) local packed = { ... }; return function() a = a .. "!"; return a, #packed, packed[1] end end
local c = cap("x", 1, 2); print(c()); print(c())
-- recursion through an upvalue; local function sees itself, local f = function does not
local function fact(n) return n <= 1 and 1 or n * fact(n - 1) end; print(fact(20))
local notself = function() return notself end; print(notself())
local even, odd; function even(n) if n == 0 then return true end return odd(n - 1) end; function odd(n) if n == 0 then return false end return even(n - 1) end
print(even(100), odd(7), even(7))
-- closures are distinct, equal to themselves
local function mk() return function() end end; print(mk() == mk(), (function(x) return x == x end)(mk()))
-- upvalue of an upvalue of a loop
local acc = {}
for a = 1, 2 do for b = 1, 2 do acc[#acc + 1] = function() local z = a * 10 + b; a = a + 1; return z end end end
for n = 1, 4 do io.write(acc[n](), " ") end print()
for n = 1, 4 do io.write(acc[n](), " ") end print()
-- break and goto out of loops close upvalues
local out
for a = 1, 5 do local v = a * 100; out = function() v = v + 1; return v end; if a == 3 then break end end
print(out(), out())
for a = 1, 5 do do local v = a; out = function() return v end; if a == 4 then goto done end end end ::done:: print(out())
-- debug.upvalueid and join
local function up() local x, y = 1, 2; return function() return x end, function() return x + y end end
local f1, f2 = up(); print(debug.upvalueid(f1, 1) == debug.upvalueid(f2, 1), debug.upvalueid(f1, 1) == debug.upvalueid(f2, 2))
local f3 = up(); debug.setupvalue(f3, 1, "joined"); debug.upvaluejoin(f1, 1, f3, 1); print(f1(), f2(), debug.getupvalue(f1, 1))
-- many upvalues
local src = {}; for n = 1, 200 do src[#src + 1] = "local u" .. n .. " = " .. n end
local body = {}; for n = 1, 200 do body[n] = "u" .. n end
-- 199 locals and one function fit
table.remove(src); body[200] = nil
local big = load(table.concat(src, "\n") .. "\nreturn function() return " .. table.concat(body, "+") .. " end")()
print(big())
-- closures in tables, called as methods, with self captured
local account = (function() local balance = 0; local self = {}; function self:deposit(n) balance = balance + n; return self end; function self.balance() return balance end; return self end)()
print(account:deposit(10):deposit(5).balance())
-- accumulate closures and call them later in reverse
local stack = {}; for n = 1, 100 do local sq = n * n; stack[n] = function(x) sq = sq + x; return sq end end
local sum = 0; for n = 100, 1, -1 do sum = sum + stack[n](n) end; for n = 1, 100 do sum = sum + stack[n](1) end; print(sum)
-- assignment to a captured variable in nested function and outer scope
local shared = 1; local function setter(v) shared = v end; local function getter() return shared end
setter(2); print(shared, getter()); shared = 3; print(getter())
-- the for loop's own variable copies
for q = 1, 3 do local f = function() return q end; q = q * 2; io.write(f(), " ") end print()
local ok, e = pcall(function() local up = {}; local f = function() return up.x.y end; f() end); print(e)
