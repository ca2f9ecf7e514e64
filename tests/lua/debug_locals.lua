-- debug.getlocal and setlocal: variables, parameters, extra arguments, temporaries; upvalues; user values.
local function all(level, co)
  local out = {}
  for i = 1, 20 do
    local n, v
    if co then n, v = debug.getlocal(co, level, i) else n, v = debug.getlocal(level + 1, i) end
    if not n or n:sub(1, 1) == "(" and n ~= "(for state)" then break end
    out[#out + 1] = n .. "=" .. (type(v) == "table" and "table" or type(v) == "function" and "function" or tostring(v))
  end
  print(table.concat(out, " "))
end

local function f(a, b, ...)
  all(1)
  local c = a
  all(1)
  do
    local d = b
    all(1)
  end
  local e <const> = 5
  local g <close> = nil
  all(1)
  for i = 1, 1 do all(1) end
  for k, v in pairs {7} do all(1) end
  for i = -1, -4, -1 do print(i, debug.getlocal(1, i)) end
  print(debug.setlocal(1, 1, "new a"), a)
  print(debug.setlocal(1, -1, "new extra"), (...))
  print(debug.setlocal(1, -9, 0))
  print(debug.getlocal(1, 0))
end
f(1, 2, "x", "y")

local function shadow(x)
  local x = x + 1
  local x = x + 1
  all(1)
  debug.setlocal(1, 2, "second")
  return x
end
print(shadow(1))

-- functions that do not run: parameters only
for i = 0, 4 do print(i, debug.getlocal(f, i)) end
print(debug.getlocal(print, 1), debug.getlocal(load(string.dump(f, true)), 1))

-- natives and temporaries
print(debug.getlocal(0, 1))
print(debug.getlocal(0, 2))
print(debug.getlocal(0, 3))
local function temporaries()
  local name, v = debug.getlocal(2, 2)
  return name == "(temporary)" and v == 11 and 1 or 0
end
local function caller(a) return (a + 1) + temporaries() end
print(caller(10))

-- other coroutines
local co = coroutine.create(function(p, q)
  local r = p + q
  local got = coroutine.yield(r)
  return p, got
end)
print(pcall(debug.getlocal, co, 0, 1))
coroutine.resume(co, 3, 4)
all(1, co)
print(debug.getlocal(co, 1, 3), debug.setlocal(co, 1, 1, "changed"))
print(coroutine.resume(co, "sent"))

-- upvalues
local u1, u2 = 1, 2
local function g1() return u1, u2 end
local function g2() u1 = u1 + 1 return u1 end
for i = 0, 4 do print(i, debug.getupvalue(g1, i)) end
print(debug.setupvalue(g1, 1, 10), g1())
print(debug.setupvalue(g1, 3, 10))
print(debug.upvalueid(g1, 1) == debug.upvalueid(g2, 1), debug.upvalueid(g1, 2) == debug.upvalueid(g2, 1))
print(debug.upvalueid(g1, 9), type(debug.upvalueid(g1, 1)))
print(debug.upvaluejoin(g1, 2, g2, 1))
print(g1())
print(g2(), g1())
print(pcall(debug.upvaluejoin, g1, 9, g2, 1))
print(pcall(debug.upvaluejoin, g1, 1, g2, 9))
print(pcall(debug.upvaluejoin, print, 1, g2, 1))
print(pcall(debug.upvalueid, 1, 1))
print(debug.getupvalue(string.gmatch("x", "x"), 1))
print(debug.getupvalue(print, 1), debug.setupvalue(print, 1, 1))
print(debug.getupvalue(load("return x"), 1) == "_ENV")
print((debug.getupvalue(load(string.dump(g1, true)), 1)))

-- metatables and user values
print(debug.getmetatable("x") == getmetatable("x"), debug.getmetatable(1))
debug.setmetatable(1, {__index = function(n, k) return n .. k end})
print((5).abc, debug.getmetatable(7) ~= nil)
debug.setmetatable(1, nil)
print(debug.setmetatable({}, nil) ~= nil, debug.getmetatable(1))
local hidden = setmetatable({}, {__metatable = "no"})
print(getmetatable(hidden), type(debug.getmetatable(hidden)))
print(pcall(debug.setmetatable, 1, 1))
print(pcall(debug.setmetatable, 1))
print(pcall(debug.getmetatable))
print(debug.getuservalue(1), debug.getuservalue(io.stdout, 1))
print(debug.setuservalue(io.stdout, 1, 1))
print(pcall(debug.setuservalue, 1, 1))
print(type(debug.getregistry()), debug.getregistry()._LOADED == package.loaded)

-- errors
print(pcall(debug.getlocal, 100, 1))
print(pcall(debug.setlocal, 100, 1, 1))
print(pcall(debug.setlocal, 1, 1))
print(pcall(debug.getlocal, 1))
print(pcall(debug.getlocal, "x", 1))
print(pcall(debug.getupvalue, 1, 1))
print(pcall(debug.setupvalue, print, 1))
