-- Yields across pcall, metamethods, iterators, sort, gsub, require-like loaders, table functions, closes.
local function run(f, ...) local co = coroutine.create(f); local out = {}; local args = table.pack(...); local n = 0
  while true do local r = table.pack(coroutine.resume(co, table.unpack(args, 1, args.n))); n = n + 1
    if coroutine.status(co) == "dead" then out[#out + 1] = "=>"; for i = 1, r.n do out[#out + 1] = tostring(r[i]) end break end
    out[#out + 1] = "y:" .. tostring(r[2]); args = table.pack("r" .. n); if n > 50 then break end end
  print(table.concat(out, " ")) end
local y = coroutine.yield
run(function() return pcall(function() return y(1), y(2) end) end)
run(function() return pcall(function() y(1); error("E", 0) end) end)
run(function() return pcall(pcall, pcall, y, 1) end)
run(function() local ok, e = pcall(function() y(1); local ok2, e2 = pcall(function() y(2); error("inner", 0) end); y(e2); error("outer", 0) end); y(e); return ok end)
run(function() return xpcall(function() y(1); error("E", 0) end, function(m) return "H" .. m end) end)
run(function() return xpcall(function(...) return y(...) end, print, "arg") end)
run(function() return pcall(error, y("as argument")) end)
local mt = {}; for _, op in ipairs { "add", "sub", "mul", "div", "mod", "pow", "idiv", "band", "bor", "bxor", "shl", "shr", "concat", "lt", "le", "eq", "unm", "bnot", "len" } do mt["__" .. op] = function(a, b) return y(op) end end
mt.__index = function(t, k) return y("index " .. tostring(k)) end; mt.__newindex = function(t, k, v) y("newindex " .. tostring(k)); rawset(t, k, v) end; mt.__call = function(self, ...) return y("call " .. select("#", ...)), ... end
local function obj() return setmetatable({}, mt) end
run(function() local a, b = obj(), obj(); return a + b, a - 1, 1 * b, a / b, a % 2, 2 ^ a, a // b end); run(function() local a, b = obj(), obj(); return a & 1, 1 | a, a ~ b, a << 1, 1 >> a, -a, ~a, #a end); run(function() local a, b = obj(), obj(); return a < b, a <= b, a == b, a ~= b, a > b, not (a >= b) end); run(function() local a = obj(); if a < 1 then y "then" else y "else" end; while a == obj() do y "loop" break end; return "ok" end); run(function() local a = obj(); return a.x, a[1], a.y.z == nil end); run(function() local a = obj(); a.p = 1; a[2] = "q"; return rawget(a, "p"), rawget(a, 2) end); run(function() local a = obj(); return a(1, 2), (a(3)) end); run(function() local a = obj(); return "x" .. a, a .. "y", "a" .. "b" .. a .. "c" end); run(function() local a = obj(); return a:method() end)
mt.__concat = function(a, b) return "<" .. tostring(type(a) == "table" and "o" or a) .. y("c") .. tostring(type(b) == "table" and "o" or b) .. ">" end; run(function() local a = obj(); return 1 .. 2 .. a .. 3 .. 4 end)
-- iterators
run(function() for i in function(_, c) c = (c or 0) + 1; y("it" .. c); if c <= 2 then return c end end do y("body" .. i) end return "done" end); run(function() for k, v in pairs(setmetatable({}, { __pairs = function(t) y "pairs"; return next, { a = 1 }, nil end })) do y(k .. v) end return "done" end); run(function() for v in coroutine.wrap(function() y "inner1"; y "inner2" end) do y("outer " .. v) end return "done" end)
-- close
run(function() do local a <close> = setmetatable({}, { __close = function() y "closing" end }); y "body" end return "after" end); run(function() local function f() local a <close> = setmetatable({}, { __close = function() y "c1" end }); local b <close> = setmetatable({}, { __close = function() y "c2" end }); return "v1", y "ret" end return f() end); run(function() return pcall(function() local a <close> = setmetatable({}, { __close = function(_, e) y("close " .. tostring(e)) end }); error("E", 0) end) end); run(function() for i in function() return 1 end, nil, nil, setmetatable({}, { __close = function() y "forclose" end }) do break end return "out" end); run(function() return pcall(function() local a <close> = setmetatable({}, { __close = function() y "c"; error("in close", 0) end }); y "b" end) end)
-- tostring, nested coroutines with pcall
run(function() local inner = coroutine.wrap(function() pcall(function() y "deep"; error "x" end); y "after"; return "inner end" end); return inner(), y "mid", inner(), inner() end)
-- error after many yields inside pcall inside metamethod
run(function() local o = setmetatable({}, { __index = function(_, k) local ok, e = pcall(function() y(k); error("idx " .. k, 0) end); return e end }); return o.a, o.b end)
-- through dofile-like loaders, load with a reader that yields is not possible in plain Lua, select, table.unpack
run(function() local f = load("local y = ...; return y 'in chunk', y 'twice'"); return f(y) end); run(function() return select(2, y "s1", y "s2"), table.unpack({ y "u1", y "u2" }) end); run(function() local t = { y "t1", y "t2", n = y "t3" }; return #t, t[1], t[2], t.n end); run(function() local a, b = y "a", y "b"; local t = {}; t[y "k"], t.z = y "v", y "z"; return a, b, t.r3, t.z end);
