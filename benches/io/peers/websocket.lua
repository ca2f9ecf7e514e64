-- For `cargo xtask talk`. Without an argument: a server that sends back at /echo, whose endpoint it prints. With a URL: a client of a server that does so.
local http, ws = require "perilune.http", require "perilune.ws"
local url = ...

if not url then
  local srv = http.server()
  srv:ws("/echo", function(c)
    local message, kind = c:recv()
    while message do
      c:send(kind == "text" and message or { binary = message })
      message, kind = c:recv()
    end
  end, { limit = 1 << 24 })
  local l = assert(srv:listen "127.0.0.1:0")
  print(l:endpoint())
  io.stdout:flush()
  return l:wait()
end

local c = assert(ws.connect(url, { limit = 1 << 24 }))
for _, size in ipairs { 0, 1, 125, 126, 127, 65535, 65536, 65537, 1 << 20 } do
  local message = ("x"):rep(size)
  c:send(message)
  local answer, kind = c:recv()
  assert(answer == message and kind == "text", size)
  c:send { binary = message }
  answer, kind = c:recv()
  assert(answer == message and kind == "binary", size)
end
c:send "pieces of \u{20ac}"
assert(c:recv() == "pieces of \u{20ac}")
c:send "ping"
assert(c:recv() == "ponged")
c:send "bye"
local message, _, code, status, reason = c:recv()
assert(message == nil and code == "closed" and status == 4002 and reason == "the server says bye")
