-- Frames have two slots before the arguments; open calls follow what sets the top.
local function f(a, ...)
  a(1, ...)
  a:m("x", a:n())
  local t = {..., (...), a(), (a())}
  ("x"):rep(2)
  a.b.c { x = 1 }
  if a then return a(...) end
  if t then return ... end
  if t[1] then return (a(...)) end
  return 1, a()
end
local function g()
  local t <close> = f()
  return f(t)
end
local function h()
  local t = f()
  k = function() return t end
  return f(t)
end
-- Calls nested deeply gather their arguments first.
a(a(a(a(a(a(a(a(a(a(a(1, a(2))))))))))))
a(a(a(a(a(a(a(a(a(a(a:m(1, (a(2)))))))))))))
