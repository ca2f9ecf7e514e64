-- Tracebacks: names of functions by how they were called, tail calls, long stacks, coroutines.
local function show(s)
  print((s:gsub("\n%s*%[C%]: in %?$", "")))
  print("--")
end

local t = {}
function t.field() show(debug.traceback("field")) end
function t:method() t.field() end
function global_function() t:method() end
local function here() global_function() end
here()
local function with_upvalue() here() end
with_upvalue()
_G.global_function = nil

local function deep(n)
  if n == 0 then show(debug.traceback("deep")) else deep(n - 1) end
  return n
end
deep(2)
deep(20)
deep(21)
deep(22)
deep(60)

local function tail(n) if n == 0 then show(debug.traceback("tail")) return 1 end return tail(n - 1) end
tail(0)
tail(3)

-- levels and messages
show(debug.traceback("level 0", 0))
show(debug.traceback("level 1", 1))
show(debug.traceback("level 2", 2))
show(debug.traceback("none", 99))
show(debug.traceback("negative", -1))
show(debug.traceback(12))
print(debug.traceback(print) == print, debug.traceback(true), type(debug.traceback({}, 1)))
print((debug.traceback(nil):match("^[^\n]*")))

-- called by natives and by metamethods
table.sort({2, 1}, function(a, b) show(debug.traceback("sort")) return a < b end)
string.gsub("x", "x", function() show(debug.traceback("gsub")) end)
print(pcall(function() show(debug.traceback("pcall")) end))
local mt = {}
for _, e in ipairs {"add", "concat", "unm", "len", "eq", "lt", "le", "call", "band", "idiv"} do
  mt["__" .. e] = function() show(debug.traceback(e)) return true end
end
mt.__index = function(_, k) show(debug.traceback("index")) return k end
mt.__newindex = function() show(debug.traceback("newindex")) end
mt.__close = function() show(debug.traceback("close")) end
local a, b = setmetatable({}, mt), setmetatable({}, mt)
local x = a + 1
x = 1 .. a
x = -a
x = #a
x = a == b
x = a < b
x = a <= b
x = a & 1
x = a // 2
x = a()
x = a.key
a.key = 1
do local c <close> = a end
for _ in function(_, c) show(debug.traceback("iterator")) end do end

-- coroutines
local co = coroutine.create(function(n)
  local function inner(m) coroutine.yield(m) error("oops") end
  inner(n)
end)
show(debug.traceback(co))
coroutine.resume(co, 1)
show(debug.traceback(co))
show(debug.traceback(co, "message"))
show(debug.traceback(co, "message", 1))
show(debug.traceback(co, nil, 5))
print(coroutine.resume(co))
show(debug.traceback(co))
co = coroutine.create(function() return 1 end)
coroutine.resume(co)
show(debug.traceback(co, "finished"))
coroutine.wrap(function() show(debug.traceback("in coroutine")) end)()

-- message handlers see the stack of the error
print(select(2, xpcall(function() local v = nil; v.x = 1 end, function(m)
  show(debug.traceback(m))
  return "handled"
end)))
show(select(2, xpcall(function() error("e") end, debug.traceback)))
show(select(2, xpcall(string.rep, debug.traceback)))
load("show = ...; show(debug.traceback('chunk'))", "=chunk name")(show)
_G.show = nil
