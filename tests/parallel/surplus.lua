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
-- Every function of these modules and every method of their objects is called with as many arguments as it has, and one more. What is new and in no list here is told.
local function complete(what, functions, calls, any)
  local known = {}
  for _, call in ipairs(calls) do known[call[1]] = true end
  for name in (any or ""):gmatch "%S+" do known[name] = true end
  local missing = {}
  for name, f in pairs(functions) do
    if type(f) == "function" and not known[name] then missing[#missing + 1] = name end
  end
  table.sort(missing)
  if #missing > 0 then print(what, "NOT TRIED", table.concat(missing, " ")) end
end
local function module(what, calls, any)
  local functions = require("perilune." .. what)
  for _, call in ipairs(calls) do
    local name, args = call[1], table.pack(table.unpack(call, 2, call.n or #call))
    args[args.n + 1] = limit
    refused(what .. "." .. name, functions[name], table.unpack(args, 1, args.n + 1))
  end
  complete(what, functions, calls, any)
end
local function object(o, what, calls, any)
  all(o, what, calls)
  local index = debug.getmetatable(o).__index
  if type(index) == "table" then complete(what, index, calls, any) end
end

local one <close> = assert(fs.open(folder .. "/one", "w+"))
-- `write` and `write_at` take any number of strings, and a table is none
object(one, "file", {
  { "read", 5 }, { "read_line", 5 }, { "read_all", 5 }, { "read_at", 0, 5 }, { "lines", 5 }, { "seek", "set", 0 }, { "size" }, { "truncate", 5 },
  { "sync" }, { "lock", {} }, { "unlock" }, { "set", {} }, { "close" },
}, "write write_at")
refused("file:write", one.write, one, "x", limit)
print(one:size())
module("fs", {
  { "read", folder, {} }, { "write", folder, "x", {} }, { "stat", folder, {} }, { "dir", folder, {} }, { "mkdir", folder, {} }, { "rename", folder, "x", {} },
  { "remove", folder, {} }, { "sync", folder, {} }, { "temporary", folder, {} }, { "open", folder, "r", {} }, { "watch", folder, {} },
})
module("net", {
  { "resolve", "localhost", {} }, { "listen", "127.0.0.1:0", {} }, { "connect", { host = "127.0.0.1", port = 1 } }, { "udp", "127.0.0.1:0", nil, n = 3 },
  { "inherited" }, { "notify", "READY=1" },
})
module("process", { { "run", { "true" } }, { "spawn", { "true" } } })
-- `on` takes any number of names
module("signal", {}, "on")
module("tty", { { "is_terminal", io.stdout }, { "size", io.stdout }, { "raw", io.stdin, {} } })
local log = require "perilune.log"
log.level "debug"
module("log", {
  { "debug", "x", {} }, { "info", "x", {} }, { "warn", "x", {} }, { "error", "x", {} }, { "is_on", "info" }, { "level", nil, n = 2 }, { "set", {} }, { "new", "x", {} },
})
object(log.new "name", "logger", {
  { "debug", "x", {} }, { "info", "x", {} }, { "warn", "x", {} }, { "error", "x", {} }, { "is_on", "info" }, { "level", "info" }, { "with", {} },
})
module("rpc", { { "serve", l, {}, {} }, { "connect", "127.0.0.1:1", {} } })
module("ws", { { "connect", "ws://127.0.0.1:1/", {} }, { "accept", {}, {} }, { "handler", print, {} } })
module("http", {
  { "server", {} }, { "request", {} }, { "get", "", {} }, { "post", "", {} }, { "put", "", {} }, { "delete", "", {} }, { "patch", "", {} }, { "head", "", {} },
  { "upgrade", {} }, { "pool", {} }, { "url", "", "" }, { "json", 1, 200 }, { "redirect", "", 302 },
}, "decode_query encode_query escape unescape events gzip reason")

-- Remote calls take what the served function takes; everything else of a client is as elsewhere.
local rpc, ws, http = require "perilune.rpc", require "perilune.ws", require "perilune.http"
pl.scope(function(s)
  local at = assert(net.listen "127.0.0.1:0")
  local serving = rpc.serve(at, { count = function(n) return function(_, i) if i < n then return i + 1 end end, nil, 0 end, add = function(a, b) return a + (b or 0) end })
  local client = assert(rpc.connect(at:endpoint()))
  all(client, "client", { { "close" }, { "is_closed" }, { "peer" }, { "peer_endpoint" }, { "info" } })
  local stream = client:stream("count", 2)
  refused("stream:close", stream.close, stream, limit)
  print(client:is_closed(), client:add(1, 2), select("#", client:call("add", 1)))
  do local client <close> = assert(rpc.connect(at:endpoint())) end
  print(pcall(function()
    local client <close> = assert(rpc.connect(at:endpoint()))
    error("passes", 0)
  end))
  client:close()
  at:close()
  serving:await()

  local srv = http.server {}
  refused("server:listen", srv.listen, srv, "127.0.0.1:0", {}, limit)
  refused("server:listen", srv.listen, srv, "127.0.0.1", 0, {}, limit)
  refused("server:run", srv.run, srv, "127.0.0.1:0", {}, print, limit)
  for _, method in ipairs { "get", "post", "put", "delete", "patch", "head", "options", "any" } do refused("server:" .. method, srv[method], srv, "/", print, {}, limit) end
  refused("server:route", srv.route, srv, "GET", "/", print, {}, limit)
  refused("server:ws", srv.ws, srv, "/", print, {}, limit)
  refused("server:use", srv.use, srv, print, limit)
  refused("server:static", srv.static, srv, "/", ".", {}, limit)
  srv:ws("/", function(c) for message in c do c:send(message) end end)
  local serving = assert(srv:listen "127.0.0.1:0")
  refused("http listener:wait", serving.wait, serving, limit)
  refused("http listener:close", serving.close, serving, 1, limit)
  local c = assert(ws.connect("ws://" .. serving:endpoint() .. "/"))
  object(c, "websocket", { { "recv", 5 }, { "send", "x" }, { "ping", "x" }, { "close", 1000, "x" }, { "peer" }, { "peer_endpoint" }, { "is_closed" } })
  print(c:recv(0.01))
  print(c:recv { timeout = 0.01 })
  print(pcall(c.recv, c, "soon"))
  c:send "there"
  print(c:recv(nil, nil))
  c:close()
  serving:close(0)
end)

-- What waits within a program.
local channel, semaphore, pool = pl.channel.new(), pl.semaphore(1), pl.pool.default()
object(channel, "channel", { { "recv", 5 }, { "recv_timeout", 5 }, { "try_recv" }, { "is_closed" } }, "send send_timeout try_send close")
object(semaphore, "semaphore", { { "acquire", 5 }, { "try_acquire" }, { "permit", 5 }, { "release" }, { "free" } }, "with")
print(semaphore:free())
object(pool:async(function() end), "task", { { "await", 5 }, { "status" } }, "cancel")
pl.scope(function(s)
  local fiber = s:spawn(function() return 1 end)
  refused("fiber:await", fiber.await, fiber, 5, limit)
  refused("fiber:status", fiber.status, fiber, limit)
  refused("fiber:cancel", fiber.cancel, fiber, "why", limit)
  refused("fiber:name", fiber.name, fiber, "name", limit)
  refused("scope:cancel", s.cancel, s, "why", limit)
  print(fiber:await(nil, nil))
end)
for _, call in ipairs { { "select", {} }, { "await_all", {} }, { "await_any", {} }, { "all", {} }, { "race", {} }, { "semaphore", 1 } } do
  refused("pl." .. call[1], pl[call[1]], call[2], limit)
end
refused("pl.channel.new", pl.channel.new, 1, "name", limit)
refused("pl.pool.new", pl.pool.new, {}, limit)
refused("pool:sort", pool.sort, pool, {}, nil, {}, limit)

-- Shared data, formats, and what has no object.
object(pl.array("i64", 4), "array", {
  { "kind" }, { "slice", 1, 2 }, { "fill", 1, 1, 2 }, { "copy", { 1 }, 1, 1, 1 }, { "totable", 1, 2 }, { "add", 1, 1 }, { "cas", 1, 1, 2 }, { "sum", 1, 2 }, { "size" },
}, "at put row reshape")
all(pl.array("f64", 2, 2), "array", { { "at", 1, 1 }, { "put", 1, 1, 5 }, { "row", 1 }, { "reshape", 4, 1 } })
all(pl.array("string", 2), "strings", { { "kind" }, { "size" }, { "fill", "x" }, { "totable" } })
all(pl.array({ x = "f64" }, 2), "records", { { "kind" }, { "column", "x" }, { "fields" }, { "get", 1 }, { "set", 1, { x = 1 } }, { "totable" } })
all(pl.map(), "map", {
  { "get", "k" }, { "set", "k", 1, {} }, { "has", "k" }, { "add", "n", 1 }, { "cas", "k", 1, 2 }, { "update", "k", tostring }, { "keys" }, { "pairs" }, { "ttl", "k" }, { "touch", "k", 1 },
  { "view" }, { "clear" },
})
all(pl.atomic(0), "atomic", {
  { "load" }, { "store", 1 }, { "exchange", 1 }, { "add", 1 }, { "sub", 1 }, { "min", 1 }, { "max", 1 }, { "cas", 1, 2 }, { "update", tostring },
})
all(pl.per_domain(function() return 1 end), "per_domain", { { "get" } })
for _, call in ipairs {
  { "array", "f64", 2, 2 }, { "array", "f64", { 1 } }, { "atomic", 1 }, { "map", {} }, { "share", {} }, { "is_shared", 1 }, { "inspect", 1, {} }, { "now" }, { "memory" }, { "limit", {} },
  { "per_domain", print },
} do
  local args = { table.unpack(call, 2) }
  args[#args + 1] = limit
  refused("pl." .. call[1], pl[call[1]], table.unpack(args))
end
module("json", { { "decode", "1", {} }, { "encode", 1, {} }, { "array", {} }, { "is_array", {} }, { "decoder", {} }, { "values", "1", {} } })
object(require "perilune.json".decoder(), "json decoder", { { "feed", "1" }, { "finish" } })
module("text", { { "decoder", {} }, { "lines", "x", {} } })
object(require "perilune.text".decoder(), "text decoder", { { "feed", "x" }, { "finish" } })
-- Hot code says so as well, and what the language itself calls takes what it gets.
do
  local a, grid, n, m = pl.array("i64", 100), pl.array("i64", 10, 10), pl.atomic(0), pl.map()
  local function hot(i, ...)
    grid:put(i % 10 + 1, 1, i, ...)
    return n:add(1, ...) + grid:at(1, 1, ...) + a:add(i % 100 + 1, 1, ...)
  end
  for i = 1, 20000 do hot(i) end
  print(pcall(hot, 1, nil), n:load())
  refused("hot", hot, 1, limit)
  for i = 1, 20000 do grid:put(1, 1, i) end
  refused("hot", function() for i = 1, 20000 do grid:put(1, 1, i, i == 20000 and limit or nil) end end)
  refused("hot", function() local x for i = 1, 20000 do x = grid:at(1, 1, i == 20000 and limit or nil) end end)
  print(#a, #m, rawlen("x"), a[1] ~= nil, #m:view(), (pairs(m)) ~= nil)
end

-- Requests and responses.
pl.scope(function(s)
  local srv = http.server {}
  srv:post("/", function(req)
    local said = {}
    for _, call in ipairs { { "read", 5 }, { "text", 5 }, { "pieces", 5 }, { "json" }, { "args" }, { "form" }, { "peer" }, { "peer_endpoint" }, { "take" }, { "upgrade", {} } } do
      local args = { table.unpack(call, 2) }
      args[#args + 1] = limit
      local ok, message = pcall(req[call[1]], req, table.unpack(args))
      said[#said + 1] = ("request:%s %s %s"):format(call[1], ok, message)
    end
    return { stream = function(w)
      for _, call in ipairs { { "flush" }, { "send_file", one, 0, 1 } } do
        local args = { table.unpack(call, 2) }
        args[#args + 1] = limit
        local ok, message = pcall(w[call[1]], w, table.unpack(args))
        said[#said + 1] = ("writer:%s %s %s"):format(call[1], ok, message)
      end
      w:write(table.concat(said, "\n"), "\n", (req:text(nil, nil)))
    end }
  end)
  local serving = assert(srv:listen "127.0.0.1:0")
  local res <close> = assert(http.post("http://" .. serving:endpoint() .. "/", { body = "the body" }))
  all(res, "response", { { "read", 5 }, { "text", 5 }, { "pieces", 5 }, { "json" }, { "close" } })
  print(res:text())
  serving:close(0)
end)

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
