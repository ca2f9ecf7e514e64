-- Many small reads and writes of one file: what is in the buffer is taken, or put there, in a shorter way than
-- what is not. All formats, failures in the middle of a call, the ends of buffers, and turns between both.
local name = os.tmpname()
local file = assert(io.open(name, "w"))
local written = 0
for i = 1, 20000 do
  assert(file:write(i, " ", i / 4, "\n") == file)
  if i % 1000 == 0 then
    local ok, message = pcall(file.write, file, "before", {}, "behind")
    assert(not ok)
    if i == 1000 then print((message:gsub("^.-: ", ""))) end
    written = written + file:seek()
    file:write("\n")
  end
end
print(written, file:seek())
print(file:write(1e15, " ", -0.0, " ", 2^53, " ", math.mininteger, " ", 0.1, " ", 1e100, "\n") == file)
print(file:write() == file, pcall(file.write, file, nil))
for size = 1, 70000, 997 do file:write(("x"):rep(size), "\n") end
file:close()
print(pcall(file.write, file, "x"))
print(pcall(file.read, file))

local file = assert(io.open(name))
local sum = 0
for i = 1, 20000 do
  local a, b = file:read("n", "*n")
  assert(a == i and b == i / 4)
  if i % 1000 == 0 then
    assert(file:read("l") == "")
    local none, more = file:read("n", "l")
    assert(none == nil and more == nil)
    -- What a numeral could not be is taken, as in C.
    sum = sum + #file:read("l")
  end
end
print(sum, file:read("l"), file:read())
local lengths, lines = 0, 0
while true do
  local line = file:read("L")
  if not line then break end
  lengths, lines = lengths + #line, lines + 1
end
print(lengths, lines)
print(file:read("a"), file:read("l"), file:read(0), file:read(1), file:read("n"))
file:seek("set")
local blocks, bytes = 0, 0
repeat
  local block, byte, line = file:read(1021, 1, "l")
  blocks, bytes = blocks + 1, bytes + #(block or "") + #(byte or "") + #(line or "")
until not line
print(blocks, bytes)
file:seek("set", 3)
print(file:read(2, 0, 3, "l"), file:read("n", 1, "n"), pcall(file.read, file, "l", "x"))
print(pcall(file.read, file, -1))
print(file:read("l", "l", "l", "l", "l", "l", "l", "l", "l", "l"))
print(file:write("no"))
file:close()

local file = assert(io.open(name, "r+"))
for i = 1, 500 do
  local line = file:read("l")
  local at = file:seek()
  file:write("#")
  file:seek("set", at)
  assert(file:read(1) == "#" and line)
end
file:setvbuf("no")
file:write("unbuffered")
file:setvbuf("full", 7)
for i = 1, 50 do file:write(i, ",") end
file:setvbuf("line")
for i = 1, 50 do file:write(i, i % 10 == 0 and "\n" or ";") end
file:seek("set")
local all = file:read("a")
local check = 0
for i = 1, #all, 3 do check = (check * 31 + all:byte(i)) % 1000000007 end
print(#all, check)
file:close()

io.output(name)
for i = 1, 3000 do io.write(i, "\n") end
io.write("end")
io.close()
io.output(io.stdout)
io.input(name)
local sum = 0
for i = 1, 3000 do sum = sum + io.read("n") end
print(sum, io.read("l", "l", "l"))
io.close(io.input())
print(pcall(io.read))
io.input(io.stdin)
os.remove(name)
