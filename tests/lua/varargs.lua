-- Varargs, select, table.pack/unpack, adjustment of lists.
local function n(...) return select("#", ...) end
print(n(), n(nil), n(nil, nil), n(1, 2, 3), n(n(), n()), n((n())))
local function f(...) local a, b = ...; return a, b, ... end
print(f()); print(f(1)); print(f(1, 2, 3)); print((f(1, 2)))
local function three() return 1, 2, 3 end
local function none() end
print(three(), three()); print((three()), (none())); print(none(), 5); print(5, none()); print(n(none()), n(none(), 1), n((none())))
local t = { three(), three() }; print(#t, table.unpack(t)); t = { three(), (three()) }; print(#t); t = { [1] = three(), three() }; print(#t); t = { none() }; print(#t, next(t)); t = { none(), none() }; print(n(table.unpack(t, 1, 1)))
local a, b, c, d = three(); print(a, b, c, d); a, b = three(), 10; print(a, b); a, b, c, d = 0, three(); print(a, b, c, d); a, b, c = none(); print(a, b, c); a, b = (three()); print(a, b)
print(select(1, "a", "b", "c")); print(select(2, "a", "b", "c")); print(select(-1, "a", "b", "c")); print(select(-2, "a", "b", "c")); print(select(4, "a", "b", "c")); print(select("#")); print(select("2", "a", "b"))
print(pcall(select, 0)); print(pcall(select, -5, 1)); print(pcall(select)); print(pcall(select, "x")); print(pcall(select, 1.5))
local p = table.pack(1, nil, 3, nil); print(p.n, #p == 4 or #p == 3 or #p == 1, p[1], p[3]); print(table.pack().n, table.unpack({ n = 3 }, 1, 3)); print(table.unpack({ 1, 2, 3 }, 2)); print(table.unpack({ 1, 2, 3 }, -1, 1)); print(table.unpack({ 1, 2 }, 2, 1)); print(table.unpack({}, 1, 2))
print(pcall(table.unpack)); print(pcall(table.unpack, {}, math.mininteger, math.maxinteger)); print(pcall(table.unpack, {}, 0, math.maxinteger)); print(table.unpack({}, math.maxinteger, math.maxinteger)); print(pcall(table.unpack, {}, math.mininteger, math.mininteger + 1))
local function sum(...) local s = 0; for i = 1, select("#", ...) do s = s + (select(i, ...)) end return s end print(sum(), sum(1), sum(1, 2, 3, 4, 5))
local function rev(x, ...) if x == nil then return end local function app(y, ...) if n(...) == 0 then return y end return ... end return n(...) > 0 and app(nil, rev(...)) or nil, x end print(n(rev(1, 2, 3)))
local function pass(...) return ... end print(pass(), pass(1, 2), (pass(3, 4))); print(pass(pass(pass(1, 2, 3))))
local function mid(...) return 0, ..., 9 end print(mid(1, 2, 3)); local function tail(...) return 0, ... end print(tail(1, 2, 3))
local function capture(...) local x = { ... }; local y = { n = select("#", ...), ... }; return #x, y.n, y[y.n] end print(capture(1, 2, 3), capture(nil, nil)); print(capture())
local function tc(k, ...) if k == 0 then return ... end return tc(k - 1, k, ...) end print(tc(5)); print(n(tc(200)))
print(pcall(function(...) return n(...), ... end, 1, nil, 3)); print(pcall(pcall)); print(pcall(pcall, error)); print((function(...) return ... end)(1, 2))
local m = { f = function(self, ...) return self.name, n(...), ... end, name = "m" }; print(m:f()); print(m:f(1, nil)); print(m.f(m, 2))
-- fewer and more arguments than parameters
local function abc(a, b, c) return a, b, c end print(abc()); print(abc(1)); print(abc(1, 2, 3, 4)); local function va(a, b, ...) return a, b, n(...), ... end print(va()); print(va(1)); print(va(1, 2)); print(va(1, 2, 3, nil))
-- recursion with varargs; many arguments
local big = {}; for i = 1, 250 do big[i] = i end; print(n(table.unpack(big)), sum(table.unpack(big))); for i = 1, 5000 do big[i] = i end; print(n(table.unpack(big)), (select(5000, table.unpack(big))), #{ table.unpack(big) }, math.max(table.unpack(big)))
print(#string.char(table.unpack((function() local r = {}; for i = 1, 200 do r[i] = 65 + i % 26 end return r end)()))); print(select(-1, table.unpack(big, 1, 300)))
-- evaluation order of assignment
local log = {}; local function idx(k) log[#log + 1] = k; return k end; local tt = {}; tt[idx "a"], tt[idx "b"] = idx "v1", idx "v2"; print(tt.a, tt.b, #log)
local i = 1; local arr = {}; i, arr[i] = i + 1, 20; print(i, arr[1], arr[2]); local x, y = 1, 2; x, y = y, x; print(x, y); local q = { 1, 2, 3 }; q[1], q[2], q[3] = q[3], q[1], q[2]; print(table.unpack(q))
do local a = { 1 }; local b = a; a.x, a = 5, { 2 }; print(b.x, a[1], a.x) end; do local a <const>, b = 1; print(a, b) end; do local function s(t, ...) t[1], t[2], t[3] = ... return t end print(table.unpack(s({}, 1, 2, 3, 4), 1, 3)); print(table.unpack(s({}), 1, 3)) end
local r1, r2, r3 = (function() return 1, 2 end)(), (function() return 3, 4 end)(); print(r1, r2, r3); local s = "x" .. (three()) .. "y"; print(s, -three(), not none(), three() == 1, #{ three(), n = 1 })
if none() then print "no" else print "nothing is false" end; print(pcall(function() return none() + 1 end)); while none() do end; print((({ three() })[3]))
