-- Processes as files.
local function msg(f, ...) local ok, e = pcall(f, ...) print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ "))) end
local p = io.popen("echo one; echo two")
print(p:read("a")) print(p:close())
for l in io.popen("printf 'a\\nb\\n'"):lines() do io.write(l, ",") end print()
print(io.popen("exit 3"):close()) print(io.popen("kill -9 $$"):close()) print(io.popen("true", "r"):close())
io.stdout:flush()
p = io.popen("tr a-z A-Z", "w") p:write("to upper\n") print(p:close())
msg(io.popen, "true", "rw") msg(io.popen, "true", "r+") msg(io.popen) msg(io.popen, "true", "")
io.write("before ") os.execute("printf ''") print("after")
