-- Files: modes, formats, positions, buffers, lines, messages.
local name = os.tmpname()
local function clean(...)
  local t = table.pack(...)
  for i = 1, t.n do if type(t[i]) == "string" then t[i] = t[i]:gsub("/tmp/lua_%w+", "NAME"):gsub("0x%x+", "ADDR"):gsub("^[^:]+:%d+: ", "@ ") end end
  return table.unpack(t, 1, t.n)
end
local function msg(f, ...) print(clean(pcall(f, ...))) end
local function write(s) local f = assert(io.open(name, "w")) assert(f:write(s) == f) assert(f:close()) end

write("first\nsecond\n\nfourth without newline")
local f = assert(io.open(name))
print(f:read()) print(f:read("l", "L")) print(f:read("*l", 0)) print(f:read("a")) print(f:read("a")) print(f:read("l")) print(f:read(0), f:read(5), f:read("n")) f:close()
for l in io.lines(name) do io.write("[", l, "]") end print()
for l in io.lines(name, "L") do io.write("[", l, "]") end print()
for a, b in io.lines(name, 3, "l") do io.write("[", a, "|", tostring(b), "]") end print()
for a in io.lines(name, 1) do io.write(a, ".") end print()
do
  local f = io.open(name)
  for l in f:lines() do io.write(l, ";") end
  print(io.type(f), f:read()) f:close() print(io.type(f), io.type(1), tostring(f))
  msg(f.read, f) msg(f.lines, f) msg(f.seek, f) msg(f.write, f, "x") msg(f.close, f) msg(f.flush, f)
end
print(select("#", io.lines(name)), io.type(select(4, io.lines(name))))
do
  local iter, _, _, file = io.lines(name)
  iter() file:close() msg(iter)
  local all = io.lines(name)
  while all() do end
  msg(all)
end
msg(io.lines, "/no/such/file") msg(function() for _ in io.lines(name, "x") do end end)
print(clean(io.open("/no/such/file"))) print(clean(io.open("/", "w"))) print(io.open("/"):read(1))
msg(io.open, name, "rw") msg(io.open, name, "") msg(io.open, name, "r+b+") msg(io.open) print(io.type(io.open(name, "r+b")), io.type(io.open(name, "abb")))

-- numbers
write("  12 -0x1F 3.5e+2 0x.8p1 1e 7,8 nan .5 99999999999999999999 0x\n+1")
f = io.open(name)
print(f:read("n", "n", "n", "n")) print(f:read("n")) print(f:read("n")) print(f:read(1, "n")) print(f:read("n")) print(f:read("l"))
print(f:read("n")) f:close()
write(string.rep("1", 200) .. " " .. string.rep("1", 201) .. "x")
f = io.open(name) print(f:read("n")) print(f:read("n")) print(f:read("a")) f:close()
msg(function() return io.open(name):read("z") end) msg(function() return io.open(name):read("n", {}) end)

-- positions and switching
f = io.open(name, "w+")
print(f:write("abc", 12, " ", 1.5, " ", 2.0, " ", -0.0) == f, f:seek(), f:seek("set"), f:read("a"), f:seek("end", -3), f:read(3), f:seek("cur"))
print(f:seek("set", 1), f:write("XY") == f, f:read(2), f:seek("cur", -1), f:read("a")) print(f:seek("set", -1)) msg(f.seek, f, "bad") msg(f.seek, f, "set", 1.5) f:close()
f = io.open(name, "a+") print(f:seek("cur"), f:read(2), f:seek("set", 0)) f:write("END") print(f:seek("cur"), f:seek("set", 0), f:read("a")) f:close()
f = io.open(name, "a") print(f:seek()) print(f:read(1)) f:close()
f = io.open(name, "r") print(f:write("x")) f:close()
f = io.open(name, "r+") f:read(3) f:write("___") f:seek("set") print(f:read("a")) f:close()

-- buffering
f = io.open(name, "w")
local other = io.open(name)
print(f:setvbuf("full", 2000)) f:write("x") print(other:read("a") == "") f:flush() print(other:read("a"))
print(f:setvbuf("no")) f:write("y") print(other:read("a"))
print(f:setvbuf("line")) f:write("z") print(other:read("a") == "") f:write("\n") print(other:read("a")) f:close() other:close()
msg(io.stdout.setvbuf, io.stdout, "bad") msg(io.stdout.setvbuf, io.stdout)

-- long contents
local long = string.rep("0123456789", 10000)
write(long .. "\n" .. long) f = io.open(name)
print(#f:read(), #f:read("L"), f:read()) f:seek("set") print(#f:read(70000), #f:read(1e6 // 1 | 0)) f:seek("set", 99990) print(f:read(10, 1, 5)) f:close()
write(string.rep("line\n", 50000)) local n = 0 for l in io.lines(name) do assert(l == "line") n = n + 1 end print(n)

-- default files
write("one\ntwo 3\n")
print(io.input(name) == io.input(), io.read(), io.read("l", "l")) print(io.read()) io.close(io.input()) msg(io.read) io.input(io.stdin)
local saved = io.output() print(io.output(name) ~= saved, io.write("out ", 1) == io.output()) io.close() msg(io.write, "x") io.output(saved)
print(io.open(name):read("a")) msg(io.input, "/no/such/file") msg(io.output, {}) msg(io.close, {})
print(io.stdout:close()) print(io.type(io.stdout), io.stderr:write("") == io.stderr)
do local t = io.tmpfile() t:write("temp") t:seek("set") print(t:read("a")) t:close() end

-- metatable
local mt = getmetatable(io.stdout)
print(mt.__name, type(mt.__gc), type(mt.__close), mt.__index.read == f.read, tostring(io.stdout):match("^file %(0x%x+%)$") ~= nil)
do local c <close> = io.open(name) f = c end print(io.type(f))
msg(io.stdout.write, 1, 2) msg(io.stdout.write, io.stdout, {}) msg(f.read) msg(tostring, f) msg(io.type)
os.remove(name)
