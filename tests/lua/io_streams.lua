-- Files: modes, formats, seeking, buffering, lines, closing, errors.
local name = "io_streams.tmp"
local f = assert(io.open(name, "w")); print(io.type(f), io.type(5), io.type(io.stdout)); print(f:write("line1\n", 2, " ", 3.5, "\nline3") == f); print(f:close(), io.type(f), tostring(f)); print(pcall(f.read, f)); print(pcall(function() f:write("x") end)); print(pcall(f.close, f)); print(pcall(io.lines, nil, "x") == false)
for l in io.lines(name) do io.write("[", l, "]") end print(); for l in io.lines(name, "L") do io.write("[", l, "]") end print(); for a, b in io.lines(name, 1, 2) do io.write("[", a, "|", tostring(b), "]") end print(); for n in io.lines(name, "n") do print(n) end
f = io.open(name); print(f:read()); print(f:read("n", "n")); print(f:read("l")); print(f:read("a")); print(f:read("a")); print(f:read("l")); print(f:read("n")); print(f:read(0)); print(f:read(5)); f:close()
f = io.open(name); print(f:read("L")); print(f:read(3), f:read(0), f:read("*l"), f:read("*a")); print(f:seek("set", 2), f:read(3)); print(f:seek("cur"), f:seek("cur", -1), f:read(1)); print(f:seek("end"), f:seek("end", -3), f:read("a")); print(f:seek("set", 100), f:read(1), f:read("a")); print(f:seek("set", -1)); f:close()
f = io.open(name, "a"); f:write("\nappended"); f:close(); f = io.open(name, "r+"); f:write("LINE"); f:seek("set", 0); print(f:read("a")); f:close(); f = io.open(name, "w+"); f:write("abc"); f:seek("set"); print(f:read("a")); f:close(); f = io.open(name, "a+"); f:write("def"); f:seek("set"); print(f:read("a")); f:close(); f = io.open(name, "rb"); print(f:read("a")); f:close()
print(io.open("/nonexistent/x")); print(io.open("/nonexistent/x", "w")); print(pcall(io.open, name, "z")); print(pcall(io.open, name, "rw")); print(pcall(io.open, name, "")); print(pcall(io.open, name, "r+b")); print(pcall(io.lines, "/nonexistent/x"))
-- write only, read only
f = io.open(name, "w"); print(f:read()); print(f:close()); f = io.open(name, "r"); print(f:write("x")); f:close()
-- numbers in every shape
f = io.open(name, "w"); f:write("10 -5 3.25 1e3 0x1F 0x1p4 .5 5. +7 nan 1e+ 12abc 99999999999999999999 - 0x 1..2 "); f:close(); f = io.open(name); for i = 1, 9 do io.write(tostring(f:read("n")), " ") end print(); print(f:read("n"), f:read("l")); f:close(); f = io.open(name, "w"); f:write("  \n\t 42\n43,44"); f:close(); f = io.open(name); print(f:read("n", "n")); print(f:read(1), f:read("n"), f:read("n")); f:close()
-- binary data and embedded zeros
f = io.open(name, "wb"); local all = {}; for i = 0, 255 do all[i + 1] = string.char(i) end f:write(table.concat(all)); f:close(); f = io.open(name, "rb"); local d = f:read("a"); print(#d, d == table.concat(all)); f:seek("set", 0); print(f:read(10) == d:sub(1, 10), #f:read(1000), f:read(1)); f:close()
-- long lines, many lines, no newline at the end, empty lines, CRLF
f = io.open(name, "w"); f:write(("x"):rep(100000), "\n", ("y"):rep(5), "\n\n\r\nlast"); f:close(); for l in io.lines(name) do io.write(#l, " ") end print(); for l in io.lines(name, "L") do io.write(#l, " ") end print(); f = io.open(name, "w"); for i = 1, 10000 do f:write(i, "\n") end f:close(); local s = 0; for l in io.lines(name) do s = s + l end print(s); local n = 0; for a, b in io.lines(name, "n", "l") do n = n + 1 end print(n); f = io.open(name); local c = 0; while true do local b = f:read(4096); if not b then break end c = c + #b end print(c); f:close()
-- lines keeps going, errors, auto close
local it = io.lines(name); print(it(), it()); f = io.open(name); local li = f:lines(); print(li(), li()); f:close(); print(pcall(li)); local gen = io.lines(name, 1); for i = 1, 3 do io.write(gen()) end print(); f = io.open(name, "w"); f:close(); for l in io.lines(name) do print "never" end; local e = io.lines(name); print(e()); print(pcall(e)); print(pcall(io.lines, name, "x")); print(pcall(function() for l in io.lines(name, {}) do end end))
-- setvbuf, flush
f = io.open(name, "w"); print(f:setvbuf("full", 1024), f:setvbuf("no"), f:setvbuf("line")); f:write("abc"); print(f:flush() == f); local g = io.open(name); print(g:read("a")); g:close(); f:close(); print(pcall(function() io.stdout:setvbuf("bad") end))
-- default input and output
io.output(name); io.write("to default\n", "second"); io.close(); io.output(io.stdout); io.input(name); print(io.read()); print(io.read("a")); print(io.read()); io.close(io.input()); print(pcall(io.read)); io.input(io.stdin); print(io.input() == io.stdin, io.output() == io.stdout); print(io.read())
-- closing through <close> and gc; file methods called wrongly
do local h <close> = io.open(name) end; do local h = io.open(name); h = nil end collectgarbage(); print(pcall(io.close, 5)); print(pcall(f.read)); print(pcall(f.read, {})); print(pcall(f.nomethod)); print(getmetatable(io.stdout).__name, f == f, f ~= io.stdout, tostring(f))
-- tmpfile, rename, remove, tmpname
local tf = io.tmpfile(); tf:write("temp"); tf:seek("set"); print(tf:read("a")); tf:close(); print(os.rename(name, name .. "2"), io.open(name)); print(os.remove(name .. "2")); print(os.remove(name .. "2")); print(os.rename("nofile1", "nofile2")); local tn = os.tmpname(); print(type(tn), os.remove(tn)); print(pcall(os.remove)); 
-- reading several formats, failure stops
f = io.open(name, "w"); f:write("1 2 x 3\nrest"); f:close(); f = io.open(name); print(f:read("n", "n", "n", "l")); print(f:read("a")); f:close(); f = io.open(name); print(f:read(1, "l", 2, "a")); f:close(); print(pcall(function() local h <close> = io.open(name); return h:read("z") end)); print(pcall(function() local h <close> = io.open(name); return h:read(-1) end) ~= nil); os.remove(name)
-- big numbers of arguments, write returns the file, chained
f = io.open(name, "w"); f:write(1):write(2):write("x", 3.0, -0.0, 1e100); f:close(); print(io.open(name):read("a")); print(pcall(io.write, nil)); print(pcall(io.write, {})); print(io.write() == io.stdout); os.remove(name)
-- popen
local p = io.popen("echo hi; exit 3"); print(p:read("a")); print(p:close()); p = io.popen("cat > /dev/null", "w"); p:write("data"); print(p:close()); print(io.popen("kill -9 $$"):close()); print(pcall(io.popen, "true", "x")); for l in io.popen("printf 'a\\nb\\n'"):lines() do io.write(l, ";") end print()
