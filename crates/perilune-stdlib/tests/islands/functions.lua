-- Functions in islands.
local limit, names, insert = 10, { "a", "b" }, table.insert
local type, random = type, math.random
local lib = {}
function lib.add(a, b) return a + b + limit end
function lib.name(i) return names[i] end
function lib.rec(n) if n == 0 then return 0 end return 1 + lib.rec(n - 1) end
function lib.global() return some_global end
function lib.types(v) return type(v), random(5) <= 5 end
function lib.varargs(...) return select("#", ...), ... end
function lib.push(t, v) insert(t, v) return #t end
function lib.iter(n) local i = 0 return function() i = i + 1 if i <= n then return i end end end
function lib.fail() error("failed") end
local function even(n) if n == 0 then return true end return not even(n - 1) end
lib.even = even
function lib:method(x) return self.add(x, 1) end
function lib.nested() return function(x) return x + limit end end
function lib.yields(x) local y = coroutine.yield(x) return y * 2 end
function lib.tail(n) if n == 0 then return "done" end return lib.tail(n - 1) end
local Class = { __index = lib, __call = function(self, x) return self.v + x end }
Class.__add = function(a, b) return (a.v or a) end
Class.__eq = function(a, b) return a.v == b.v end
Class.__lt = function(a, b) return a.v < b.v end
Class.__le = function(a, b) return a.v <= b.v end
Class.__len = function(a) return a.v end
Class.__concat = function(a, b) return "concat" end
Class.__tostring = function(a) return "object " .. a.v end
Class.__unm = function(a) return -a.v end
Class.__pairs = function(a) return next, { pairs = 1 } end
local dynamic = { __index = function(t, k) return k .. "!" end }
lib.Class = Class
local s = share { lib = lib, obj = setmetatable({ v = 5 }, Class), same = setmetatable({ v = 5 }, Class),
  dyn = setmetatable({}, dynamic) }
local S = s.lib

assert(type(S.add) == "function" and is_shared(S.add) and in_island(S.add))
assert(tostring(S.add):match "^function: " and S.add ~= lib.add and S.add == s.lib.add)
assert(tostring(S.add) == ("function: %p"):format(S.add))
for i = 1, 10 do
  assert(S.add(1, 2) == 13 and S.name(2) == "b" and S.rec(20) == 20 and S.even(7) == false)
  assert(S:method(1) == 12 and S.nested()(5) == 15)
  local n = 0
  for v in S.iter(4) do n = n + v end
  assert(n == 10)
  assert(select("#", S.varargs(nil, nil)) == 3 and S.varargs() == 0)
  assert(S.types {} == "table" and select(2, S.types {}))
  assert(S.push({ 1 }, 2) == 2)
end
assert(S.name(1) == "a" and not pcall(S.push, s, 1))
some_global = "here"
assert(S.global() == "here")
some_global = nil
assert(S.global() == nil)
assert(S.tail(1000000) == "done")

-- as callbacks and through pcall, coroutines, metamethods
assert(pcall(S.add, 1, 2) and select(2, pcall(S.add, 1, 2)) == 13)
local ok, e = pcall(S.fail)
assert(not ok and e:find "failed" and e:match ":%d+:")
assert(select(2, xpcall(S.fail, function(m) return "handled" end)) == "handled")
assert(select(2, xpcall(error, S.rec, 3)) == 3)
local co = coroutine.create(S.yields)
assert(select(2, coroutine.resume(co, 7)) == 7 and select(2, coroutine.resume(co, 4)) == 8)
local w = coroutine.wrap(S.yields)
assert(w(1) == 1 and w(5) == 10)
local less = share { function(a, b) return a > b end }
local list = { 3, 1, 2 }
table.sort(list, less[1])
assert(table.concat(list) == "321")
assert(("abc"):gsub(".", share { function(c) return c:upper() end }[1]) == "ABC")
for i = 1, 5 do
  local o = s.obj
  assert(o(10) == 15 and o + 1 == 5 and o == s.same and not (o < s.same) and o <= s.same and #o == 5)
  assert(o .. "x" == "concat" and tostring(o) == "object 5" and -o == -5 and o.add(1, 1) == 12 and o:method(1) == 12)
  assert(s.dyn.anything == "anything!" and s.dyn.other == "other!")
  for k in pairs(o) do assert(k == "pairs") end
end
local mine = setmetatable({ v = 6 }, S.Class)
assert(mine(1) == 7 and s.obj < mine and mine ~= s.obj and mine.add(0, 0) == 10 and #mine == 6)
local called = setmetatable({}, { __index = S.add, __call = S.varargs })
assert(not pcall(function() return called.x end) and called(1) == 2)
assert(load(S.iter(0)) and select(2, pcall(load, S.iter(2))) == nil or true)

-- a method of a private class that is a shared function can be replaced
local Private = {}
Private.__index = Private
Private.twice = share { function(self, x) return x * 2 end }[1]
local function call(o, x) return o:twice(x) end
local object = setmetatable({}, Private)
for i = 1, 5 do assert(call(object, i) == 2 * i) end
Private.twice = function(self, x) return x * 3 end
for i = 1, 5 do assert(call(object, i) == 3 * i) end
Private.twice = share { function(self, x) return x * 4 end }[1]
for i = 1, 5 do assert(call(object, i) == 4 * i) end
local function field(o) return o.method end
for i = 1, 5 do
  assert(s.obj:method(1) == 12 and field(s.obj) == S.method and s.obj.method == S.method)
end
-- method calls at one site, of islands that come and go
local function get(o) return o:get() end
for i = 1, 300 do
  local class = share { __index = { get = function(self) return self.v + i end } }
  for v = 1, 3 do assert(get(setmetatable({ v = v }, class)) == v + i) end
  if i % 50 == 0 then collectgarbage() end
end

-- debug
local info = debug.getinfo(S.add)
assert(info.short_src == "functions" and info.what == "Lua" and info.linedefined > 0 and info.nparams == 2)
assert(debug.getinfo(S.add, "L").activelines and debug.getlocal(S.add, 1) == "a")
local name, value = debug.getupvalue(S.add, 1)
assert(name == "limit" and value == 10)
assert(not pcall(debug.setupvalue, S.add, 1, 5) and S.add(0, 0) == 10)
assert(not pcall(debug.upvaluejoin, S.add, 1, lib.add, 1))
assert(debug.upvalueid(S.add, 1) == debug.upvalueid(S.add, 1))
assert(load(string.dump(S.tail)))
local where
share { function() where = 1 end and nil }
local traced = share { function() return debug.traceback("here") end }
assert(traced[1]():find("functions:%d+"))
local lines = 0
debug.sethook(function() lines = lines + 1 end, "l")
assert(S.add(1, 1) == 12)
debug.sethook()
assert(lines > 0)

-- a cycle of functions and tables, and functions as keys
local m = {}
function m.f() return m end
m[m.f] = "key"
local sm = share(m)
assert(sm.f() == sm and sm[sm.f] == "key")
verify()
for i = 1, 3 do collectgarbage() end
assert(S.add(1, 2) == 13 and sm.f() == sm and s.obj(1) == 6)
verify()
