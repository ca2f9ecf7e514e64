-- Constructors, borders, next and deletion during traversal, key kinds, growth and shrinking.
local t = { 1, 2, 3, x = "a", ["y z"] = "b", [10] = "ten", [1.5] = "f", [true] = "yes", 4 }
print(#t, t[4], t.x, t["y z"], t[10], t[1.5], t[true], t[false])
print(#{}, #{ nil }, #{ 1, nil } == 1 or #{ 1, nil } == 2, #{ n = 1 }, #{ 1, 2, 3, [5] = 5 } == 3 or true, #{ [1] = 1, [2] = 2 }, #{ "a", "b", "c", })
print(({ 5, 6, [1] = 7 })[1], ({ [1] = 7, 5 })[1], ({ x = 1, x = 2 }).x, #{ { {}, {} }, {} })
local e = { f = function() return "called" end, ["k" .. 1] = 1; 2, 3; n = nil }; print(e.f(), e.k1, e[1], e[2], e.n)
-- traversal order of the array part, complete coverage of the hash part
local keys = {}; for k, v in pairs({ 10, 20, 30, a = 1, b = 2, [100] = 3, [2.5] = 4 }) do keys[#keys + 1] = tostring(k) .. "=" .. tostring(v) end table.sort(keys); print(table.concat(keys, " "))
local ar = {}; for k, v in pairs({ "a", "b", "c", "d" }) do ar[#ar + 1] = k .. v end print(table.concat(ar, " "))
-- deletion of the current and of other keys while traversing
local d = {}; for i = 1, 1000 do d[i] = i; d["k" .. i] = i end
local seen = 0; for k, v in pairs(d) do seen = seen + 1; d[k] = nil end print(seen, next(d))
for i = 1, 1000 do d[i] = i; d["k" .. i] = i end; seen = 0; for k, v in pairs(d) do seen = seen + 1; if type(k) == "number" then d["k" .. k] = nil else d[v] = nil end; d[k] = nil; if seen % 100 == 0 then collectgarbage() end end print(seen, next(d))
local upd = { a = 1, b = 2, c = 3 }; for k, v in pairs(upd) do upd[k] = v * 10 end print(upd.a, upd.b, upd.c)
for k in pairs(upd) do upd[k] = nil; collectgarbage() end print(next(upd))
-- next
print(next({})); print(next({ 5 })); print(next({ 5 }, 1)); print(next({ a = 1 })); print(next({ a = 1 }, "a")); print(pcall(next, {}, "nokey")); print(pcall(next, {}, 1)); print(pcall(next)); print(pcall(next, 5)); print(pcall(next, { 1, 2 }, 5)); print(rawequal(next, next))
do local x = { 1, 2, 3 }; local k, v = next(x); local c = 0; while k do c = c + v; k, v = next(x, k) end print(c) end
print(pcall(next, { 1 }, 0/0))
-- growth
local g = {}; for i = 1, 100000 do g[i] = i end print(#g, g[1], g[50000], g[100000], g[100001]); for i = 100000, 50001, -1 do g[i] = nil end print(#g); for i = #g, 1, -1 do g[i] = nil end print(#g, next(g))
local r = {}; for i = 1000, 1, -1 do r[i] = i end print(#r, r[1], r[1000]); local sp = {}; for i = 1, 1e6, 99999 do sp[i] = true end; local c = 0; for _ in pairs(sp) do c = c + 1 end print(c); local neg = {}; for i = -10, 10 do neg[i] = i end print(#neg, neg[-10], neg[0], neg[10])
local h = {}; for i = 1, 20000 do h["key" .. i] = i end; local s = 0; for k, v in pairs(h) do s = s + v end print(s); for i = 1, 20000, 2 do h["key" .. i] = nil end; c = 0; for k, v in pairs(h) do c = c + 1 end print(c, h.key1, h.key2); for i = 1, 20000 do h["new" .. i] = i end c = 0; for _ in pairs(h) do c = c + 1 end print(c)
-- borders
local function border(t) local n = #t; return (n == 0 or t[n] ~= nil) and t[n + 1] == nil end
local b = {}; print(border(b)); for i = 1, 20 do b[i] = i; assert(border(b)) end; b[10] = nil; print(border(b)); b[20] = nil; print(border(b)); b[15] = nil; print(border(b)); for i = 1, 20 do b[i] = nil; assert(border(b)) end; print(#b)
for _, holes in ipairs { { 1, nil, 3 }, { nil, nil, 3 }, { nil, 2 }, { 1, 2, nil, nil }, { n = 1, nil }, { nil } } do io.write(tostring(border(holes)), " ") end print()
b = { [1] = 1, [2] = 2, [4] = 4 }; print(border(b)); b[3] = 3; print(#b); b[math.maxinteger] = "x"; print(border(b)); local mx = { [math.maxinteger] = 1, [math.mininteger] = 2 }; print(#mx, mx[math.maxinteger], mx[math.mininteger], mx[math.mininteger - 1])
-- float, integer, string keys apart; normalisation
local k = {}; k[1] = "int"; k[1.0] = "float"; k["1"] = "str"; k[-0.0] = "zero"; k[2^53] = "big"; print(k[1], k["1"], k[0], k[2^53 | 0], k[0.0]); c = 0; for _ in pairs(k) do c = c + 1 end print(c)
-- keys of all types
local f, tb, co = function() end, {}, coroutine.create(print); local all = { [f] = 1, [tb] = 2, [co] = 3, [true] = 4, [false] = 5, [print] = 6, [io.stdout] = 7, [math.huge] = 8, [-math.huge] = 9, [""] = 10, ["\0"] = 11 }
print(all[f], all[tb], all[co], all[true], all[false], all[print], all[io.stdout], all[math.huge], all[-math.huge], all[""], all["\0"], all[{}], all[function() end])
-- long and short strings as keys
local ls = {}; local long = ("x"):rep(100); ls[long] = "long"; print(ls[("x"):rep(100)], ls[("x"):rep(99) .. "x"], ls[("x"):rep(99)]); ls[long] = nil; print(next(ls))
-- nested
local m = {}; for i = 1, 10 do m[i] = {}; for j = 1, 10 do m[i][j] = i * j end end; s = 0; for i = 1, 10 do for j = 1, 10 do s = s + m[i][j] end end print(s, #m, #m[1], m[3][4])
-- assigning nil to absent keys does nothing, numbers become other kinds
local z = {}; z.x = nil; z[1] = nil; print(next(z)); z[1] = 1; z[2] = 2.5; z[3] = "s"; z[4] = z; z[5] = true; print(#z, math.type(z[1]), math.type(z[2]), z[3], z[4] == z, z[5])
local mix = { 1, 2, 3 }; mix[2] = "two"; mix[3] = 3.0; print(mix[1], mix[2], mix[3], math.type(mix[3])); local fl = { 1.0, 2.0 }; fl[1] = 1; print(math.type(fl[1]), math.type(fl[2])); local fi = {}; for i = 1, 10 do fi[i] = i / 2 end; fi[5] = 7; print(fi[4], fi[5], fi[6])
-- a queue and a stack
local q, head, tail = {}, 1, 0; for i = 1, 1000 do tail = tail + 1; q[tail] = i; if i % 3 == 0 then q[head] = nil; head = head + 1 end end print(tail - head + 1, q[head], q[tail]); local st = {}; for i = 1, 1000 do st[#st + 1] = i; if i % 3 == 0 then st[#st] = nil end end print(#st, st[#st])
