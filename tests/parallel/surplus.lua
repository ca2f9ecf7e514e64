-- Arguments that a method does not have are refused where they would be without effect: a time limit is none that nobody looks at.
local pl, net, fs, process = require "perilune", require "perilune.net", require "perilune.fs", require "perilune.process"
local l = assert(net.listen "127.0.0.1:0")
local a = assert(net.connect(l:endpoint()))
local b = assert(l:accept())
local u = assert(net.udp "127.0.0.1:0")
local folder = os.tmpname()
os.remove(folder)
assert(fs.mkdir(folder))
local w = assert(fs.watch(folder))
local p = assert(process.spawn { "cat", stdin = "pipe", stdout = "pipe" })
local file = io.tmpfile()
local bytes = pl.array("u8", 10)

local limit = { timeout = 1 }
local function refused(name, f, ...)
  local ok, message = pcall(f, ...)
  print(name, ok, (tostring(message):gsub("^.-:%d+: ", "")))
end
-- As many arguments as each has, and one more.
local calls = {
  { "read", 5 }, { "read_exact", 5 }, { "read_line", 5 }, { "read_until", "x", 5 }, { "read_all", 5 }, { "read_into", bytes, 1, 5 },
  { "lines", 5 }, { "peek", 5 }, { "flush" }, { "close_write" }, { "close" }, { "abort" }, { "copy_to", b }, { "send_file", file, 0, 5 },
  { "start_tls", {} }, { "set", {} }, { "info" }, { "peer" }, { "peer_endpoint" }, { "address" }, { "endpoint" }, { "is_closed" },
}
local function all(object, what, calls)
  for _, call in ipairs(calls) do
    local name, args = call[1], { table.unpack(call, 2) }
    args[#args + 1] = limit
    refused(what .. ":" .. name, object[name], object, table.unpack(args))
  end
end
all(a, "connection", calls)
print(a:is_closed(), a:info().received)
all(l, "listener", { { "accept", 1 }, { "close", 1 }, { "address" }, { "endpoint" }, { "info" }, { "serve", print, {} } })
all(u, "udp", { { "send", "x", "127.0.0.1", 9 }, { "recv", 1 }, { "set", {} }, { "address" }, { "endpoint" }, { "close" } })
all(w, "watch", { { "recv", 1 }, { "close" } })
all(p, "process", { { "wait", 1 }, { "kill", "TERM" } })
all(p.stdin, "pipe", { { "flush" }, { "close" } })
all(p.stdout, "pipe", { { "read", 5 }, { "close" } })
refused("net.listen", net.listen, "127.0.0.1:0", {}, limit)
refused("net.listen", net.listen, "127.0.0.1", 0, {}, limit)
refused("net.connect", net.connect, l:endpoint(), nil, limit)
refused("net.connect", net.connect, { host = "127.0.0.1", port = 1 }, limit)
refused("net.udp", net.udp, "127.0.0.1", 0, limit)
refused("fs.watch", fs.watch, folder, limit)
-- as a method, the receiver is not counted; other types than tables are refused as well
print(pcall(function() a:read(5, limit) end))
print(pcall(function() a:flush(1) end))
print(pcall(function() a:write("x", limit) end))
print(pcall(function() a:flush(nil, nil, false) end))

-- nil is no argument, and what Lua itself calls takes what it gets
b:write "hello\n"
print(a:read_line(nil, nil), a:flush(nil, nil), a:info(nil).received)
do
  local c <close> = assert(net.connect(l:endpoint()))
  local d <close> = assert(l:accept(nil, nil))
end
print(pcall(function()
  local c <close> = assert(net.connect(l:endpoint()))
  local d <close> = assert(l:accept())
  error("passes", 0)
end))
print(p.stdin:close(nil), p.stdout:read_all(nil, nil), p:wait(nil, nil).code)
b:write "one\ntwo\n"
b:close_write()
for line in a:lines(nil, nil) do io.write(line, " ") end
print(a:close(), l:close(nil, nil), u:close(), w:close())
fs.remove(folder, { recursive = true })
