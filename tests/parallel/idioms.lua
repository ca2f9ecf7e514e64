-- What ordinary programs do, each as a loop that is waited for, as a task and as a message: the rows of the table in docs/parallel-design.md.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }

local ways = {
  function(f, v) return pool:map({ v == nil and 1 or v }, f)[1] end,
  function(f, v) return pool:async(f, v == nil and 1 or v):await() end,
  function(f, v)
    local c = pl.channel.new(1)
    c:send(f)
    return pool:async(function(v) return c:recv()(v) end, v == nil and 1 or v):await()
  end,
}

-- What came of it: the value, or the first sentence of the message.
local function outcome(ok, v)
  if ok then return "`" .. tostring(v) .. "`" end
  local text = tostring(v):gsub("\n.*", ""):gsub("^[^ ]*:%d+: ", ""):gsub("idiom:", "line "):gsub(", a local variable of line %d+", "")
  text = text:gsub("^the %l+ cannot go to another domain: ", "")
  text = text:gsub("^the %l+ %b(), (captured '[^']*') %b(), cannot go to another domain: ", "%1: ")
  return (text:gsub("([%l%d][%)']*)%. %u.*", "%1"))
end

local known = {}
for name in pairs(_G) do known[name] = true end

local count = 0
local function group(title) print("\n**" .. title .. "**\n\n| | program | a loop that is waited for | a task | a message |\n|---|---|---|---|---|") end
local function idiom(what, program)
  count = count + 1
  local cells = {}
  for i, X in ipairs(ways) do
    cells[i] = outcome(pcall(assert(load("local X, pl, pool = ...\n" .. program, "=idiom")), X, pl, pool))
    for name in pairs(_G) do
      if not known[name] then _G[name] = nil end
    end
  end
  if cells[3] == cells[2] then cells[3] = "same" end
  if cells[2] == cells[1] then cells[2] = "same" end
  print(("| %d | %s | %s |"):format(count, what, table.concat(cells, " | ")))
end

group "Variables"
idiom("`local n = 5`, read", [[
local n = 5
return X(function() return n end)]])
idiom("`n = n or 5` before the function", [[
local function f(n)
  n = n or 5
  return X(function() return n end)
end
return f()]])
idiom("`if c then x = 1 else x = 2 end` before", [[
local x
if pl then x = 1 else x = 2 end
return X(function() return x end)]])
idiom("`local x; if c then x = 1 end` before, not taken", [[
local x
if not pl then x = 1 end
return X(function() return x end)]])
idiom("`t = pl.share(t)` before", [[
local t = { 7 }
t = pl.share(t)
return X(function() return t[1] end)]])
idiom("`local N <const> = 5`", [[
local N <const> = 5
return X(function() return N end)]])
idiom("a loop's variable", [[
local sum = 0
for i = 1, 3 do sum = sum + X(function() return i end) end
return sum]])
idiom("a loop's variable, assigned in the body before", [[
local sum = 0
for i = 1, 3 do
  i = i * 2
  sum = sum + X(function() return i end)
end
return sum]])
idiom("`for k, v in pairs(t)`, both captured", [[
local sum = 0
for k, v in pairs { a = 1, b = 2 } do sum = sum + X(function() return k == "a" and v or v * 10 end) end
return sum]])
idiom("`while n < 3 do ... n ... n = n + 1 end`", [[
local n, sum = 0, 0
while n < 3 do
  sum = sum + X(function() return n end)
  n = n + 1
end
return sum]])
idiom("the same with `local m = n`", [[
local n, sum = 0, 0
while n < 3 do
  local m = n
  sum = sum + X(function() return m end)
  n = n + 1
end
return sum]])
idiom("`goto continue` in the loop around, and in the body", [[
local sum = 0
for i = 1, 4 do
  if i % 2 == 0 then goto continue end
  sum = sum + X(function()
    local k = 0
    ::again::
    k = k + 1
    if k < i then goto again end
    return k
  end)
  ::continue::
end
return sum]])
idiom("buffers that change roles: `a, b = b, a` behind", [[
local a, b = pl.array("i64", 1), pl.array("i64", 1)
for _ = 1, 4 do
  X(function() b[1] = a[1] + 1 return 0 end)
  a, b = b, a
end
return a[1] ]])
idiom("`n = n + 1` behind the function", [[
local n = 1
local r = X(function() return n end)
n = n + 1
return r]])
idiom("a flag that another function sets (`verbose`)", [[
local verbose = false
local function set() verbose = true end
set()
return X(function() return verbose end)]])
idiom("`local f; f = function() ... f() end`", [[
local f
f = function(n) return n == 0 and 0 or 1 + f(n - 1) end
return X(f, 3)]])
idiom("`local function fib`, recursive", [[
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
return X(fib, 10)]])
idiom("`local even, odd`, which call each other", [[
local even, odd
function even(n) return n == 0 or odd(n - 1) end
function odd(n) return n ~= 0 and even(n - 1) end
return X(even, 10)]])
idiom("a forward declaration that has no value yet", [[
local f
local r = X(function() return f and f() or "nil" end)
f = function() return 1 end
return r]])
idiom("`n = n + 1` in the function", [[
local n = 1
return X(function() n = n + 1 return n end)]])
idiom("the same in a function that it calls by name", [[
local n = 1
local function count() n = n + 1 return n end
return X(function() return count() end)]])
idiom("the same in a function in a captured table", [[
local n, counter = 1, {}
function counter.up() n = n + 1 return n end
return X(function(k) return counter[k]() end, "up")]])
idiom("a counter made by `make_counter()`, sent itself", [[
local function make_counter()
  local n = 0
  return function() n = n + 1 return n end
end
return X(make_counter())]])
idiom("`make_counter` called over there", [[
local function make_counter()
  local n = 0
  return function() n = n + 1 return n end
end
return X(function()
  local c = make_counter()
  c()
  return c()
end)]])
idiom("`make_adder(2)`, a closure over a parameter", [[
local function make_adder(k) return function(x) return x + k end end
return X(make_adder(2), 40)]])
idiom("`debug.setupvalue` of what has crossed", [[
local n = 1
return X(function()
  local function f() return n end
  debug.setupvalue(f, 1, 2)
  return f()
end)]])
idiom("`...` of the main chunk, used in the body", [[
local function main(...)
  local args = { ... }
  return X(function() return #args end)
end
return main(1, 2, 3)]])
idiom("varargs and `select('#', ...)` in the body", [[
return X(function(...) return select("#", ...) end)]])
idiom("`local t <close>` in the body", [[
return X(function()
  local log = {}
  do
    local guard <close> = setmetatable({}, { __close = function() log[1] = "closed" end })
  end
  return log[1]
end)]])

group "Tables that are read"
idiom("`config.width`", [[
local config = { width = 80 }
return X(function() return config.width end)]])
idiom("`config[k]`", [[
local config = { width = 80 }
return X(function(k) return config[k] end, "width")]])
idiom("`config.window.width`", [[
local config = { window = { width = 80 } }
return X(function() return config.window.width end)]])
idiom("`Config.width`, a global", [[
Config = { width = 80 }
return X(function() return Config.width end)]])
idiom("`config.get = 1` after a crossing, then another", [[
local config = { width = 80 }
X(function(k) return config[k] end, "width")
config.width = 90
return X(function(k) return config[k] end, "width")]])
idiom("`arg[0]`", [[
return X(function() return type(arg and arg[0]) end)]])
idiom("`ops[name](x)`, a table of functions", [[
local ops = { double = function(x) return x * 2 end, add = function(x) return x + 1 end }
return X(function(x) return ops.double(ops.add(x)) end, 20)]])
idiom("`ipairs`, `#`, `table.concat`, `table.unpack` of a list", [[
local list = { 1, 2, 3 }
return X(function()
  local sum = 0
  for _, v in ipairs(list) do sum = sum + v end
  return sum .. #list .. table.concat(list, "+") .. select("#", table.unpack(list))
end)]])
idiom("a table of 10,000 constants", [[
local primes = {}
for i = 1, 10000 do primes[i] = i * i end
return X(function() return primes[10000] end)]])
idiom("a set: `stop_words[word]`", [[
local stop_words = { the = true, a = true }
return X(function(w) return stop_words[w] end, "the")]])
idiom("a graph that leads back to itself", [[
local node = { name = "root" }
node.children = { { parent = node } }
return X(function() return node.children[1].parent == node end)]])
idiom("a list linked 10,000 deep", [[
local list
for i = 1, 10000 do list = { next = list } end
return X(function()
  local n, at = 0, list
  while at do n, at = n + 1, at.next end
  return n
end)]])
idiom("one table captured and as argument", [[
local E = {}
return X(function(v) return v == E end, E)]])
idiom("a sentinel: `if v == NIL`, sent in a list", [[
local NIL = setmetatable({}, { __name = "NIL" })
return X(function(list) return list[2] == NIL end, { 1, NIL })]])
idiom("a weak cache, read", [[
local cache = setmetatable({}, { __mode = "k" })
local key = {}
cache[key] = 7
return X(function() return cache[key] end)]])
idiom("defaults: `setmetatable(t, { __index = defaults })`", [[
local options = setmetatable({}, { __index = { colour = "red" } })
return X(function() return options.colour end)]])
idiom("`__index` that is a function", [[
local squares = setmetatable({}, { __index = function(_, n) return n * n end })
return X(function() return squares[7] end)]])
idiom("`__call`, `__len`, `__tostring`, `__eq`, `__lt`", [[
local mt = { __call = function(_, x) return x + 1 end, __len = function() return 9 end, __tostring = function() return "T" end }
mt.__eq = function() return true end
mt.__lt = function() return true end
local a, b = setmetatable({}, mt), setmetatable({}, mt)
return X(function() return a(1) .. #a .. tostring(a) .. tostring(a == b) .. tostring(a < b) end)]])
idiom("an enumeration that is read only by `__newindex = error`", [[
local Colour = setmetatable({}, { __index = { RED = 1 }, __newindex = function(_, k) error("no colour " .. k) end })
return X(function() return Colour.RED end)]])
idiom("`setmetatable(_G, strict)`", [[
declared = 1
setmetatable(_G, { __index = function(_, name) error("undeclared " .. name, 2) end })
local ok, v = pcall(X, function() return declared end)
setmetatable(_G, nil)
if not ok then error(v, 0) end
return v]])

group "Tables that are written"
idiom("`results[i] = v`", [[
local results = {}
X(function(i) results[i] = i return i end)
return #results]])
idiom("`results[#results + 1] = v`", [[
local results = {}
X(function(i) results[#results + 1] = i return i end)
return #results]])
idiom("`table.insert(results, v)`", [[
local results = {}
X(function(i) table.insert(results, i) return i end)
return #results]])
idiom("`local insert = table.insert`, `insert(results, v)`", [[
local insert = table.insert
local results = {}
X(function(i) insert(results, i) return i end)
return #results]])
idiom("`count.total = count.total + 1`", [[
local count = { total = 0 }
return X(function() count.total = count.total + 1 return 0 end)]])
idiom("`state.list[1] = v`", [[
local state = { list = {} }
return X(function(v) state.list[1] = v return v end)]])
idiom("`state.map:set(k, v)`, a `pl.map` in a table", [[
local state = { map = pl.map() }
X(function(v) state.map:set("k", v) return v end)
return state.map:get "k"]])
idiom("`local r = results; r[i] = v`", [[
local results = {}
return X(function(i) local r = results r[i] = i return i end)]])
idiom("`grid[y][x] = v`", [[
local grid = { { 0 } }
return X(function(x) grid[1][x] = 1 return x end)]])
idiom("`rawset(t, k, v)`", [[
local t = {}
return X(function(v) rawset(t, "k", v) return v end)]])
idiom("`table.sort(t)`", [[
local t = { 2, 1 }
return X(function() table.sort(t) return t[1] end)]])
idiom("`table.sort(t)`, `t` an argument", [[
return X(function(t) table.sort(t) return t[1] end, { 2, 1 })]])
idiom("`table.move(t, 1, #t, 1, {})`: a copy to write to", [[
local t = { 2, 1 }
return X(function()
  local c = table.move(t, 1, #t, 1, {})
  table.sort(c)
  return c[1]
end)]])
idiom("`memo[n] = v`, a memo table", [[
local memo = {}
local function fib(n)
  if n < 2 then return n end
  if not memo[n] then memo[n] = fib(n - 1) + fib(n - 2) end
  return memo[n]
end
return X(fib, 20)]])
idiom("`pl.per_domain(function() return {} end)` as the memo", [[
local memo = pl.per_domain(function() return {} end)
local function fib(n)
  if n < 2 then return n end
  local m = memo:get()
  if not m[n] then m[n] = fib(n - 1) + fib(n - 2) end
  return m[n]
end
return X(fib, 20)]])
idiom("a buffer of strings outside: `buf[#buf + 1] = s`", [[
local buf = {}
local function emit(s) buf[#buf + 1] = s end
return X(function() emit "a" emit "b" return table.concat(buf) end)]])
idiom("the same inside", [[
return X(function()
  local buf = {}
  local function emit(s) buf[#buf + 1] = s end
  emit "a" emit "b"
  return table.concat(buf)
end)]])
idiom("a captured table whose `__newindex` sends", [[
local c = pl.channel.new(1)
local proxy = setmetatable({}, { __newindex = function(_, k, v) c:send(k .. v) end })
X(function(v) proxy.k = v return v end)
return c:recv()]])
idiom("`function M.f() end` in the function", [[
local M = {}
return X(function() function M.f() return 1 end return M.f() end)]])
idiom("`List[1] = v`, a global", [[
List = {}
return X(function(v) List[1] = v return v end)]])
idiom("`total = total + 1`, a global", [[
total = 0
return X(function() total = total + 1 return total end)]])
idiom("`total = total + 1` in a spawned domain", [[
total = 1
return pl.domain.spawn(function() total = total + 1 return total end):join()]])
idiom("a table as argument that is changed", [[
local t = { n = 1 }
return X(function(t) t.n = t.n + 1 return t.n end, t) .. t.n]])
idiom("what is popped from a list: `table.remove(queue)`", [[
local queue = { 1, 2 }
return X(function() return table.remove(queue) end)]])

group "Objects"
idiom("a class of the file, made over there", [[
local Point = {}
Point.__index = Point
function Point.new(x) return setmetatable({ x = x }, Point) end
function Point:double() return self.x * 2 end
return X(function(x) return Point.new(x):double() end, 21)]])
idiom("an instance as argument", [[
local Point = {}
Point.__index = Point
function Point:double() return self.x * 2 end
return X(function(p) return p:double() end, setmetatable({ x = 21 }, Point))]])
idiom("an instance as argument that is changed", [[
local Point = {}
Point.__index = Point
function Point:move(d) self.x = self.x + d return self end
return X(function(p) return p:move(1).x end, setmetatable({ x = 1 }, Point))]])
idiom("a captured instance, read by a method", [[
local Point = {}
Point.__index = Point
function Point:double() return self.x * 2 end
local p = setmetatable({ x = 21 }, Point)
return X(function() return p:double() end)]])
idiom("a captured instance, changed by a method", [[
local Point = {}
Point.__index = Point
function Point:move(d) self.x = self.x + d return self.x end
local p = setmetatable({ x = 1 }, Point)
return X(function() return p:move(1) end)]])
idiom("`setmetatable(Derived, { __index = Base })`", [[
local Base = {}
Base.__index = Base
function Base:name() return "base " .. self.n end
local Derived = setmetatable({}, { __index = Base })
Derived.__index = Derived
return X(function(n) return setmetatable({ n = n }, Derived):name() end)]])
idiom("`Base.name(self)` from an overriding method", [[
local Base = {}
Base.__index = Base
function Base:name() return "base" end
local Derived = setmetatable({}, { __index = Base })
Derived.__index = Derived
function Derived:name() return Base.name(self) .. "+" end
return X(function() return setmetatable({}, Derived):name() end)]])
idiom("`getmetatable(r) == Point` of a result", [[
local Point = {}
return getmetatable(X(function() return setmetatable({}, Point) end)) == Point]])
idiom("a method that sends: `X(function() return self.x end)`", [[
local Point = {}
Point.__index = Point
function Point:far() return X(function() return self.x end) end
return setmetatable({ x = 21 }, Point):far()]])
idiom("`self.x = 1` in such a function", [[
local Point = {}
Point.__index = Point
function Point:far() return X(function() self.x = 1 return 1 end) end
return setmetatable({}, Point):far()]])
idiom("`X(obj.method, obj)`, a method as callback", [[
local Point = {}
Point.__index = Point
function Point:double() return self.x * 2 end
local p = setmetatable({ x = 21 }, Point)
return X(p.double, p)]])
idiom("private state in a closure: `local balance` and `deposit`", [[
local function account(balance)
  return { deposit = function(n) balance = balance + n return balance end }
end
local a = account(1)
return X(function(n) return a.deposit(n) end)]])
idiom("a class with a registry: `Point.count = Point.count + 1` in `new`", [[
local Point = { count = 0 }
Point.__index = Point
function Point.new() Point.count = Point.count + 1 return setmetatable({}, Point) end
return X(function() return Point.new() and 1 end)]])
idiom("a singleton made when asked for: `M.instance = M.instance or {}`", [[
local M = {}
function M.get() M.instance = M.instance or { 1 } return M.instance end
return X(function() return M.get()[1] end)]])
idiom("a captured instance with `__gc`", [[
local file = setmetatable({ n = 1 }, { __gc = function() end })
return X(function(k) return file[k] end, "n")]])
idiom("the best of a captured list as result, then changed", [[
local list = { { n = 1 }, { n = 2 } }
local best = X(function() return list[2] end)
best.n = 3
return best == list[2] and list[2].n]])

group "The library and what belongs to the process"
idiom("`require` in the body", [[
return X(function() return require("perilune") ~= nil end)]])
idiom("`local json = require 'perilune.json'` at the top", [[
local json = require "perilune.json"
return X(function() return json.encode { 1, 2 } end)]])
idiom("a module table in `package.preload`", [[
package.preload.idiom_greet = function() return { hello = function(n) return "hello " .. n end } end
local greet = require "idiom_greet"
local r = X(function() return greet.hello "you" end)
package.preload.idiom_greet, package.loaded.idiom_greet = nil, nil
return r]])
idiom("`local floor, insert = math.floor, table.insert`", [[
local floor, insert = math.floor, table.insert
return X(function() local t = {} insert(t, floor(2.5)) return t[1] end)]])
idiom("`string.trim = ...`, then `s:trim()`", [[
function string.trim(s) return (s:gsub("%s+$", "")) end
local r = X(function(s) return s:trim() .. "." end, "a ")
string.trim = nil
return r]])
idiom("`s:gsub(p, replacements)`, `s:gmatch(p)` in the body", [[
local replacements = { a = "1", b = "2" }
return X(function()
  local r = ("abc"):gsub("%a", replacements)
  for w in ("x y"):gmatch "%a" do r = r .. w end
  return r
end)]])
idiom("an iterator made outside: `local words = s:gmatch '%a+'`", [[
local words = ("a b"):gmatch "%a+"
return X(function() return words() end)]])
idiom("an iterator of one's own: `for i in range(3)`", [[
local function range(n)
  local i = 0
  return function() i = i + 1 if i <= n then return i end end
end
return X(function() local sum = 0 for i in range(3) do sum = sum + i end return sum end)]])
idiom("a coroutine made in the body", [[
return X(function()
  local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
  return co() + co() + co()
end)]])
idiom("a generator function captured, wrapped over there", [[
local function gen() for i = 1, 3 do coroutine.yield(i) end end
return X(function() local sum = 0 for i in coroutine.wrap(gen) do sum = sum + i end return sum end)]])
idiom("a captured coroutine", [[
local co = coroutine.create(function() end)
return X(function() return coroutine.status(co) end)]])
idiom("`coroutine.wrap` outside, called in the body", [[
local next_id = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end)
return X(function() return next_id() end)]])
idiom("`yield` across the crossing", [[
return X(function() return coroutine.isyieldable(), pcall(coroutine.yield, 1) end)]])
idiom("`print`, `io.write`, `io.stdout:write` captured", [[
local write, out = io.write, io.stdout
return X(function() write() out:write "" return io.type(out) end)]])
idiom("a file that was opened: `file:write`", [[
local name = os.tmpname()
local file = assert(io.open(name, "w"))
local ok, r = pcall(X, function() file:write "x" file:flush() return io.type(file) end)
file:close()
os.remove(name)
if not ok then error(r, 0) end
return r]])
idiom("`os.getenv`, `os.time`, `os.clock`", [[
return X(function() return type(os.getenv "PATH") .. type(os.time()) .. type(os.clock()) end)]])
idiom("`math.randomseed(42)` outside, `math.random` in the body", [[
math.randomseed(42)
local here = math.random(1 << 30)
math.randomseed(42)
return X(function() return math.random(1 << 30) end) == here]])
idiom("`math.randomseed(42)` in the body", [[
math.randomseed(42)
local here = math.random(1 << 30)
return X(function() math.randomseed(42) return math.random(1 << 30) end) == here]])
idiom("`error { code = 5 }`, caught outside", [[
local ok, e = pcall(X, function() error { code = 5 } end)
return e.code]])
idiom("`error(setmetatable({}, E))`, caught by class", [[
local E = {}
local ok, e = pcall(X, function() error(setmetatable({}, E)) end)
return getmetatable(e) == E]])
idiom("`error 'text'`, caught outside", [[
local ok, e = pcall(X, function() error "broken" end)
return (e:match "^[^\n]*")]])
idiom("`pcall` in the body", [[
return X(function() return select(2, pcall(error, "x")) end)]])
idiom("`assert(false, message)`", [[
return X(function() assert(false, "message") end)]])
idiom("`local ok, err = nil, 'why'` as results", [[
return X(function() return select("#", nil, "why") end)]])
idiom("`debug.getinfo(1).currentline`, `debug.traceback`", [[
return X(function() return debug.getinfo(1, "l").currentline .. type(debug.traceback()) end)]])
idiom("a function made by `load`", [[
local f = load "return 6 * 7"
return X(function() return f() end)]])
idiom("`string.dump(f)` as argument, `load`ed over there", [[
local code = string.dump(function(x) return x * 2 end)
return X(function(c) return load(c, "=code", "b")(21) end, code)]])
idiom("`load(text, name, 't', { x = 1 })`: an environment of its own", [[
local f = load("return x", "=f", "t", { x = 1 })
return X(function() return f() end)]])
idiom("`local _ENV = { ... }` in the body", [[
return X(function() local _ENV = { x = 5 } return x end)]])
idiom("a global function, redefined between crossings", [[
function clamp(x) return x end
X(function(x) return clamp(x) end)
function clamp(x) return x + 1 end
return X(function(x) return clamp(x) end)]])
idiom("`_G[name](x)`", [[
function helper(x) return x + 1 end
return X(function(name) return _G[name](1) end, "helper")]])
idiom("`pool`, channels, arrays, maps, atomics captured", [[
local a, m, n = pl.array("f64", 1), pl.map(), pl.atomic(0)
X(function() a[1] = 1 m:set(1, 2) n:add(3) return 0 end)
return a[1] + m:get(1) + n:load()]])
idiom("a task within a task", [[
return X(function(x) return pool:async(function() return x + 1 end):await() end)]])
idiom("`pl.share`d table, written", [[
local t = pl.share { 1 }
return X(function() t[1] = 2 return t[1] end)]])
idiom("a fiber's scope or a timer captured", [[
local r
pl.scope(function(s) r = table.pack(pcall(X, function() return s end)) end)
if not r[1] then error(r[2], 0) end
return type(r[2])]])

pool:close()
