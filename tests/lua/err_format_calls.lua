-- Errors as values: levels, rethrow, nesting, handlers, error objects, pcall results.
print(pcall(error)); print(pcall(error, nil)); print(pcall(error, "m", 0)); print(pcall(error, "m")); print(pcall(error, "m", 1)); print(pcall(error, "m", 2)); print(select("#", pcall(error)))
local function lvl(n) error("level " .. n, n) end
local function outer(n) lvl(n) end
for n = 0, 4 do print(pcall(outer, n)) end
local t = { code = 42 }; local ok, e = pcall(error, t); print(ok, e == t, e.code); ok, e = pcall(function() error(t) end); print(ok, e == t)
print(pcall(pcall, error, "x")); print(pcall(pcall)); print(pcall(pcall, pcall)); print(pcall(function() return 1, 2, nil end)); print(pcall(function() end))
-- rethrow
print(pcall(function() local ok, e = pcall(error, "inner"); error("outer: " .. e, 0) end)); print(pcall(function() local ok, e = pcall(function() error "inner" end); error(e, 0) end))
-- xpcall
print(xpcall(function(...) return ... end, print, 1, 2)); print(xpcall(error, function(m) return "H:" .. tostring(m) end, "msg", 0)); print(xpcall(function() local x; x() end, function(m) return "H:" .. m end)); print(xpcall(error, function() end)); print(xpcall(error, function(...) return select("#", ...), ... end, "z"))
print(xpcall(function() error { 1 } end, type)); print(xpcall(error, function(m) error("in handler", 0) end, "first") == false); print(select("#", xpcall(error, function() return 1, 2, 3 end)))
print(xpcall(function() return xpcall(error, function(m) return "inner " .. m end, "E", 0) end, function(m) return "outer " .. m end)); print(xpcall(function() pcall(error, "quiet"); error("loud", 0) end, function(m) return "H " .. m end))
print(pcall(xpcall)); print(pcall(xpcall, print)); print(xpcall(5, function(m) return "H " .. m end)); print(xpcall(nil, function(m) return m end))
-- the handler runs at the point of the error: locals are visible
print(xpcall(function() local secret = "seen"; error "x" end, function(m) local n, v = debug.getlocal(3, 1); return n .. "=" .. tostring(v) end)); print(xpcall(function() local secret = "seen2"; local y = secret.z.w end, function(m) local n, v = debug.getlocal(2, 1); return n .. "=" .. tostring(v) end))
-- assert
print(pcall(assert, false)); print(pcall(assert, nil, "msg")); print(pcall(assert, false, t) == false, select(2, pcall(assert, false, t)) == t); print(assert(1, 2, 3)); print(select("#", assert(true, nil, nil))); print(pcall(assert, false, nil)); print(pcall(assert))
-- tostring'ed error objects
local eo = setmetatable({}, { __tostring = function() return "EO" end }); print(select(2, pcall(error, eo)) == eo, tostring(select(2, pcall(error, eo))))
-- position information
print(pcall(load("error('here')", "=chunk"))); print(pcall(load("\n\nerror('here')", "@file.lua"))); print(pcall(load("error('here')", "some code"))); print(pcall(load("error('here')"))); print(pcall(load("local x\nx.y = 1", "line one\nline two"))); print(pcall(load("error('x')", "=" .. ("n"):rep(100)))); print(pcall(load("error('x')", "@" .. ("n"):rep(100)))); print(pcall(load("error('x')", ("n"):rep(100)))); print(pcall(load("error('x')", ""))); print(pcall(load("error('x')", "=")));print(pcall(load("error('x')", "@")))
print(pcall(load("\n\n\nlocal t = nil\nt\n.x\n.y = 1", "=ml"))); print(pcall(load("local a = 1\nlocal b = a +\n\nnil\n", "=ml"))); print(pcall(load("f(\n1,\n2\n)", "=ml"))); print(pcall(load("local t = {\na = 1,\nb = x.y,\nc = 2}", "=ml"))); print(pcall(load("return 1 ..\n{}\n.. 2", "=ml"))); print(pcall(load("if x.y then\nend", "=ml"))); print(pcall(load("for i = 1,\n{}\ndo\nend", "=ml"))); print(pcall(load("while true do\n local x = nil\n x.y = 1\nend", "=ml")))
-- many levels of pcall
local function nest(n) if n == 0 then error("bottom", 0) end local ok, e = pcall(nest, n - 1); error(e .. n % 10, 0) end; print(select(2, pcall(nest, 30)))
local depth = 0; local function deep(n) if n == 0 then return "ok" end local ok, v = pcall(deep, n - 1); return v end; print(deep(150))
-- error in __tostring, __index, comparator, gsub callback, iterator
print(pcall(tostring, setmetatable({}, { __tostring = function() error("ts", 0) end }))); print(pcall(table.sort, { 3, 2, 1 }, function() error("cmp", 0) end)); print(pcall(string.gsub, "abc", ".", function() error("cb", 0) end)); print(pcall(function() for x in function() error("it", 0) end do end end)); print(pcall(load, function() error("rd", 0) end)); print(pcall(next, {}, {})); print(pcall(string.rep, "x", -1)); print(pcall(function() return ("x"):rep(1e10):len() end) == false)
-- numbers as messages get no position; strings do
print(pcall(error, 5, 1)); print(pcall(function() error(5.5) end)); print(pcall(function() error("s") end)); print(pcall(function() error(true, 2) end))
-- state after an error is fine
for i = 1, 1000 do pcall(error, "x") end; for i = 1, 100 do pcall(function() local a, b, c = 1, {}, "x"; error { a, b, c } end) end print "still here"
