-- Calls that have a way of their own past the general one: each with too few, enough and too many values, and from where it has no such way.
local yield, resume = coroutine.yield, coroutine.resume
local function all(...) return yield(...) end
local function two(a, b) return yield(a, b) end
local co = coroutine.create(function(...)
  print("start", ...)
  local a, b, c = all(1, 2) print(a, b, c)
  local t = { two(3) } print(#t, t[3])
  print(select("#", all()))
  print((two(4, 5)))
  print(pcall(two, 6))
  for i = 1, 3 do print(i, (two(i))) end
  yield()
  print("plain", yield("x", "y", "z"))
  return two("end")
end)
print(resume(co, "s", 1)) print(resume(co, 10, 20)) print(resume(co, 5, 6, 7)) print(resume(co)) print(resume(co))
print(resume(co, "p", "q")) print(resume(co, 2)) print(resume(co, 4)) print(resume(co, 6)) print((resume(co)))
resume(co, 1, 2) print(resume(co, 7, 8, 9)) print(resume(co)) print(coroutine.status(co))
local sum = 0
for a, b, c in coroutine.wrap(function() for i = 1, 300 do yield(i, i + 1) end for i = 1, 3 do two(i) end end) do
  sum = sum + a + (b or 0) assert(c == nil)
end
print(sum)
-- pcall: results, arguments, varargs, nesting, tail position
local function id(...) return ... end
local function none() end
local function one(a) return a end
print(pcall(id)) print(pcall(id, 1, 2, 3)) print((pcall(none))) print(pcall(one)) print(pcall(one, 1, 2)) print(pcall(pcall, one, 7))
local ok, a, b = pcall(one, 5) print(ok, a, b) pcall(none)
print(select("#", pcall(none)), (function(...) return pcall(...) end)(id, 8, 9))
local depth = 0
local function nest(n) if n == 0 then error({}) end local r = pcall(nest, n - 1) depth = depth + 1 return r end
print(pcall(nest, 20), depth)
-- tail calls: fewer and more parameters than arguments, to and from varargs, with captured variables, of natives
local function f4(a, b, c, d) return a, b, c, d end
local function down(n, ...) if n == 0 then return f4(...) end return down(n - 1, ...) end
print(down(1000, 1, 2)) print((function(a) return f4(a) end)(1)) print((function(a, b, c, d, e) return one(a, b, c, d, e) end)(1, 2, 3, 4, 5))
print((function(x) local function g() return x end return id(g(), g) end)(3) == 3) print((function(s) return tostring(s) end)(12), (function(...) return select("#", ...) end)(nil, nil))
-- metamethods that are functions of few and of many parameters, and natives
local mt = { __add = function(p, q, r) return r == nil and "add" end, __eq = function(...) return select("#", ...) == 2 end, __lt = function() end,
  __le = function() return 1 end, __index = function(t, k) return k, "more" end, __newindex = function(...) rawset(...) end, __len = function(...) return select("#", ...) end,
  __concat = function(p, q) return "cat" end, __call = function(self, ...) return select("#", ...) end, __unm = rawlen, __sub = function() return two("within") end }
local x, y = setmetatable({}, mt), setmetatable({}, mt)
print(x + 1, 1 + x, x == y, x ~= y, x < y, not (x < y), x <= y, x.key, #x, x .. 1, 1 .. x .. 2, x(1, 2, 3), -x)
x.new = 5 print(rawget(x, "new")) local w = coroutine.wrap(function() return x - y end) print(w(), w("back"))
-- loops over natives, functions, arrays that change
for k, v in string.gmatch("a=1,b=2", "(%w)=(%w)") do io.write(k, v, " ") end for p, c in utf8.codes("h€y") do io.write(p, ":", c, " ") end
for a, b, c in function(s, n) if n < s then return n + 1 end end, 3, 0 do io.write(tostring(a), tostring(b), " ") end
local arr = { 1, 2, 3, nil, 5, x = 1 } for k, v, w2 in pairs(arr) do arr[k] = nil io.write(tostring(k), tostring(v), tostring(w2), " ") end print(next(arr))
for i, v, w2 in ipairs({ 1.5, 2.5, nil, 4 }) do io.write(i, ":", v, tostring(w2), " ") end for i, v in ipairs(setmetatable({ 1 }, { __index = function(_, i) if i < 4 then return i * 10 end end })) do io.write(i, ":", v, " ") end print()
-- comparisons of strings and of mixed numbers
print("a" < "b", "a" < "ab", "" < "a", "a\0b" < "a\0c", "\255" < "a", "x" <= "x", ("x"):rep(50) == ("x"):rep(50), "b" > "a", "Z" >= "a")
print(1 < 1.5, 2 ^ 53 < 2 ^ 53 | 0, math.maxinteger < 2 ^ 63, math.maxinteger + 0.0 <= math.maxinteger, 1 <= 0 / 0, not (1 <= 0 / 0), 3 > 2.5, -1 >= -1.0)
print(7 // 2, -7 // 2, 7 % 4, -7 % 4, -7 % -4, -8 // 8, math.mininteger // 1, math.mininteger % 8, math.mininteger // 4611686018427387904, 7 // -2, 7 % -4)
-- a hook switched on between a resume and its yield
local events = 0
local h = coroutine.create(function() debug.sethook(function() events = events + 1 end, "cr") two(1) pcall(one, 1) debug.sethook() return two(2) end)
print(resume(h)) print(resume(h)) print(resume(h, "last")) print(events > 0)
