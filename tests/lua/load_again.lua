-- The same file loaded again, as it was and changed: what is compiled may be shared, functions and their
-- variables are not.
local name = os.tmpname()
local function write(text)
  local f = assert(io.open(name, "wb"))
  f:write(text)
  f:close()
end
local function told(ok, message)
  return ok, (tostring(message):gsub("^.-(:%d+:)", "file%1"))
end

write "return function() return 1 end"
local f1 = dofile(name)
write "return function() return 2 end"
local f2 = dofile(name)
write "return function() return 1 end"
local f3 = dofile(name)
print(f1(), f2(), f3(), f1 == f3)

-- A first line that is skipped, and one that is not.
write "#!/bin/x\nerror('at ' .. 2)"
print(told(pcall(dofile, name)))
write "\nerror('at ' .. 2)"
print(told(pcall(dofile, name)))

-- What does not compile is refused each time; modes are asked each time.
write "x = "
print(told(loadfile(name)))
print(told(loadfile(name)))
write "return ..."
print(loadfile(name, "b"))
print(loadfile(name, "t")(7))

-- Upvalues of their own.
local g, h = loadfile(name, "t", {}), loadfile(name)
print(g ~= h, g(1), h(2))
write "local function up() n = (n or 0) + 1 return n end up() return up"
local e1, e2 = {}, {}
local u1, u2, u3 = loadfile(name, "t", e1)(), loadfile(name, "t", e2)(), loadfile(name, "t", e1)()
print(u1(), u2(), u3(), u1 ~= u3, e1.n, e2.n, n)
print(debug.getinfo(u1, "S").linedefined, debug.getinfo(u1, "S").source == debug.getinfo(u3, "S").source)

-- A binary chunk.
write(string.dump(loadfile(name), true))
print(type(loadfile(name, "b", {})()))
print(loadfile(name, "t"))
os.remove(name)
