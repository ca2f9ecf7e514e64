-- stress: no
-- Limits of the compiler: locals, upvalues, registers, nesting.
local function try(src)
  local f, msg = load(src, "=src")
  print(f and "ok" or msg)
  return f
end
local function names(n, p) local t = {} for i = 1, n do t[i] = p .. i end return table.concat(t, ",") end
try("local " .. names(200, "a"))
try("local " .. names(201, "a"))
try("function f() local " .. names(201, "a") .. " end")
try("\n\nlocal function g() local " .. names(201, "a") .. " end")
do
  local t = {}
  for i = 1, 200 do t[#t + 1] = "local u" .. i end
  t[#t + 1] = "do local function f() return u1 end end"
  try(table.concat(t, "\n"))
end
do -- upvalues: 255 at most
  local function up(n)
    local half = math.min(n, 150)
    return "local " .. names(half, "a") .. "\nlocal function f() local " .. names(n - half, "b") ..
      "\nreturn function() return {" .. names(half, "a") .. "," .. names(n - half, "b") .. "} end end"
  end
  try(up(255))
  try(up(256))
end
-- many constants and a long table constructor
do
  local t = {}
  for i = 1, 70000 do t[i] = "'k" .. i .. "'" end
  local f = try("return {" .. table.concat(t, ",") .. "}")
  local r = f()
  print(#r, r[1], r[256], r[65536], r[65537], r[70000])
end
do
  local t = {}
  for i = 1, 3000 do t[i] = "x" .. i .. "=" .. i .. ".5" end
  local f = try("return {" .. table.concat(t, ",") .. "}")
  local r = f()
  print(r.x1, r.x255, r.x256, r.x257, r.x3000)
end
-- nested parentheses and functions within the limit
print(try("return " .. ("("):rep(150) .. "1" .. (")"):rep(150))())
print(#try("return " .. ("{"):rep(150) .. ("}"):rep(150))())
print((select(2, load("local a; a" .. (".x"):rep(1000) .. " = 1", "=src"))))
-- too deep: an error, not a crash (what is too deep is the compiler's own business below 200 and above 100000)
local function deep(src)
  local ok, f, msg = pcall(load, src, "=src")
  print(ok, f, f == nil and (msg:find("overflow") or msg:find("too many")) ~= nil)
end
for _, n in ipairs { 1000, 200000 } do
    deep("return " .. ("("):rep(n) .. "1" .. (")"):rep(n))
    deep(("do "):rep(n) .. ("end "):rep(n))
    deep("x = " .. ("{"):rep(n))
    deep("return " .. ("- "):rep(n) .. "1")
    deep("return " .. ("not "):rep(n) .. "1")
    deep("return 1" .. (" .. 1"):rep(n))
    deep("return 1" .. (" ^ 1"):rep(n))
    deep(("function f() "):rep(n))
    deep(("if x then "):rep(n))
    deep(("f("):rep(n))
    deep(("a["):rep(n))
end
print(load("return 1" .. (" .. 1"):rep(150))() == ("1"):rep(151), load("return 2" .. (" ^ 1"):rep(150))())
do
  local f = load("local a = {}; a.x = a; return a" .. (".x"):rep(5000) .. " == a")
  print(f())
end
-- a long chain of a left associative operator is no nesting
print(load("return 0" .. (" + 1"):rep(20000))())
-- a long if-elseif chain
do
  local t = {"local x = ...; if x == 0 then return 'zero'"}
  for i = 1, 2000 do t[#t + 1] = "elseif x == " .. i .. " then return 'n" .. i .. "'" end
  t[#t + 1] = "else return 'other' end"
  local f = load(table.concat(t, " "))
  print(f(0), f(1), f(1000), f(2000), f(2001))
end
-- a loop whose body needs a long jump
do
  local body = ("x = x + 1 "):rep(10000)
  local f = load("local x = 0; for i = 1, 3 do " .. body .. " end return x")
  print(f())
  f = load("local x = 0; local n = 0 while n < 3 do n = n + 1 " .. body .. " end return x")
  print(f())
end
-- call with many arguments
do
  local f = load("return select('#', " .. ("1,"):rep(200) .. "1)")
  print(f())
  print((select(2, load("return f(" .. ("1,"):rep(300) .. "1)", "=src"))))
end
print(select("#", table.unpack({}, 1, 10000)))
print(pcall(table.unpack, {}, 1, 1e7))
print(#string.format(("%d"):rep(100), table.unpack((function() local t = {} for i = 1, 100 do t[i] = i end return t end)())))
-- the token that a limit is reported near
local function up(body)
  local parts = { "local " .. names(150, "a"), "local function f() local " .. names(110, "b"), "return function()" }
  for i = 1, 150 do parts[#parts + 1] = (body:gsub("%%", "a" .. i)) end
  for i = 1, 110 do parts[#parts + 1] = (body:gsub("%%", "b" .. i)) end
  return table.concat(parts, "\n") .. " end end"
end
for _, body in ipairs {
  "% = 1", "% = x.y", "%()", "%:m()", "%'x'", "x = 1 + % * 2", "x = not % or 1", "x = {% = %, 1}", "x[%] = 1", "%[1] = 1", "if % then end",
  "for i = %, 2 do end", "for i in % do end", "local function g() return % end", "x = (%)", "do local x = % end", "x = % .. 'text'",
  "function %.f() end", "repeat until %", "x = %\n", "x = %\n\n.y", "x = % -- comment\n", "x = % == 'a\\0b'", "x = %, 1e3",
} do
  try(up(body))
end
local function rep(s, n) return s:rep(n) end
try("f(" .. rep("1,", 300) .. "1)")
try("f(" .. rep("'x',", 300) .. "'x')")
try("return " .. rep("f(), ", 300) .. "1")
try(rep("f(1,", 150) .. "1" .. rep(")", 150))
try(rep("f{1,", 130) .. "1" .. rep("}", 130))
try("return " .. rep("{1,", 180) .. "1" .. rep("}", 180))
try("local " .. names(190, "a") .. "\nlocal x = f(" .. rep("1,", 90) .. "1) + 2")
try("local t; t.x = " .. rep("t:m(1, ", 100) .. "1" .. rep(")", 100))
