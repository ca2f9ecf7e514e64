-- Bytes from a connection into an array.
local pl = require "perilune"
local net = require "perilune.net"
local l <close> = net.listen("127.0.0.1:0")
local a = net.connect(l:endpoint())
local b = l:accept()

local bytes = pl.array("u8", 8)
a:write("abc\0\xff") a:flush()
print(b:read_into(bytes))
print(bytes[1], bytes[4], bytes[5], bytes[6])
a:write("0123456789") a:flush()
print(b:read_into(bytes, 7), bytes[6], bytes[7], bytes[8])
print(b:read_into(bytes, 2, 3), bytes[1], bytes[2], bytes[4], bytes[5])
print(b:read_into(bytes, 1, 0), b:read_into(bytes, 9))
print(b:read())
for _, arguments in ipairs {
  { bytes, 0 }, { bytes, 10 }, { bytes, 1, 9 }, { bytes, 8, 2 }, { bytes, 1, -1 }, { pl.array("i32", 4) }, { {} },
} do
  print(pcall(b.read_into, b, table.unpack(arguments)))
end
-- a timeout loses nothing, and touches nothing
b:set { read_timeout = 0.005 }
print(b:read_into(bytes))
pl.after(0.01, function() a:write("late") a:close() end)
b:set { read_timeout = 10 }
print(b:read_into(bytes:slice(3, 5)), bytes[2], bytes[3], bytes[5], bytes[6])
print(b:read_into(bytes))

-- 4 MiB through a window, in two domains
local a = net.connect(l:endpoint())
local b = l:accept()
local all = pl.array("u8", 4 << 20)
local reader = pl.domain.spawn(function(b, all)
  local at = 1
  while at <= #all do
    local n = assert(b:read_into(all, at))
    at = at + n
  end
  return all:sum()
end, b, all)
local piece = {}
for n = 0, 255 do piece[n + 1] = string.char(n) end
piece = table.concat(piece):rep(64)
for _ = 1, 256 do a:write(piece) end
a:close()
print(reader:join() == (4 << 20) // 256 * (255 * 256 // 2))
