-- load, loadfile, dofile: sources, modes, environments, names.
local plain_print = print
local function print(...)
  local t = table.pack(...)
  for i = 1, t.n do if type(t[i]) == "function" then t[i] = "a function" end end
  plain_print(table.unpack(t, 1, t.n))
end
print(load("return 1 + 1")())
print(load("return ...", "=name")("a", "b"))
print(load("x ="))
print(load("x =", "=chunk")) print(load("x =", "@file.lua")) print(load("x =", "some code\nmore"))
print(load("error('e')", "=n") and pcall(load("error('e')", "=n")))
print(load("return x", "n", "t", {x = "from env"})())
print(pcall(load("return x", "n", "t", nil)))
print(load("return 1", "=x", "b")) print(load(string.dump(function() return 7 end), "=x", "t"))
print(load(string.dump(function() return 7 end), "=x", "b")())
print(load("return 1", "=x", "q"))

do -- pieces
  local pieces, i = {"return ", "'", "ab", "c'", " .. 1", "2", nil}, 0
  print(load(function() i = i + 1 return pieces[i] end)())
  print(load(function() return nil end))
  i = 0
  print(load(function() i = i + 1 return ({"return 1", "", "garbage ="})[i] end)())
  print(load(function() i = i + 1 return 5 end == nil and "" or "return 1"))
  print(pcall(load, 5)) print(pcall(load, {})) print(pcall(load))
  local n = 0
  print(load(function() n = n + 1 if n == 1 then return "return " elseif n == 2 then return 42 end end)())
end

local name = os.tmpname()
local function write(s) local f = assert(io.open(name, "wb")) f:write(s) f:close() end
write("#!/usr/bin/lua\nreturn ..., debug.getinfo(1, 'l').currentline")
print(loadfile(name)("arg"))
write("\xEF\xBB\xBFreturn 'bom'") print(dofile(name))
write("\xEF\xBB\xBF# comment\nreturn 'both', debug.getinfo(1, 'l').currentline") print(dofile(name))
write("# only a comment") print(dofile(name))
write("") print(loadfile(name) ~= nil, dofile(name))
write("# first\n" .. string.dump(function() return "binary" end)) print(dofile(name))
write("return x") print(loadfile(name, "t", {x = 3})(), (loadfile(name, "b")))
write("return 1,2,3") print(dofile(name))
write("x = = 1") print((select(2, loadfile(name)):gsub("^.-(:%d+:)", "%1"))) print((select(2, pcall(dofile, name)):gsub("^.-(:%d+:)", "%1")))
write("error('inside')") print((select(2, pcall(dofile, name)):gsub("^.-(:%d+:)", "%1")))
os.remove(name)
print((select(2, loadfile(name)):gsub(name, "NAME", 1, true):gsub("/tmp/lua_%w+", "NAME")))
print((select(2, pcall(dofile, name)):gsub("/tmp/lua_%w+", "NAME")))
