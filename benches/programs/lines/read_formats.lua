-- file:read with every format: numbers, lines with their ends, fixed blocks, the whole file, seek between.
-- bench: group=lines size=600000 quick=40000
local n = tonumber(arg and arg[1]) or 600000

local name = os.tmpname()
local file = assert(io.open(name, "w"))
for i = 1, n do file:write(i, " ", i / 4, "\n") end
file:close()

local f = assert(io.open(name))
local ints, quarters = 0, 0
while true do
  local a, b = f:read("*n", "*n")
  if not a then break end
  ints = ints + a
  quarters = quarters + b
end
assert(ints == n * (n + 1) / 2 and quarters == ints / 4)
local size = f:seek("end")
f:seek("set", 0)
local kept = 0
while true do
  local line = f:read("*l")
  if not line then break end
  kept = kept + #line + 1
end
assert(kept == size)
f:seek("set")
local blocks, bytes = 0, 0
while true do
  local block = f:read(1021)
  if not block then break end
  blocks = blocks + 1
  bytes = bytes + #block
end
assert(bytes == size)
f:seek("set")
local all = f:read("*a")
f:close()
os.remove(name)
assert(#all == size)
print(string.format("read_formats %d %d", ints, select(2, all:gsub("7", ""))))
