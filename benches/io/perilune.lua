-- The server of `cargo xtask io` on Perilune: HTTP, and lines that are sent back. Argument 1: the folder of /static. Argument 2: domains that serve HTTP, if not this one.
local pl, net, http, json = require "perilune", require "perilune.net", require "perilune.http", require "perilune.json"
local domains = math.tointeger(arg[2])

local server = http.server { body_limit = 1 << 20 }
server:get("/hello", function() return { status = 200, headers = { ["content-type"] = "text/plain" }, body = "hello" } end)
server:post("/json", function(req)
  local order = json.decode(req:text())
  local sum = 0
  for _, item in ipairs(order.items) do sum = sum + item.price * item.count end
  return http.json { id = order.id, items = #order.items, sum = sum, name = order.name }
end)
server:static("/static", arg[1])

pl.scope(function(s)
  local listener = assert(server:listen("127.0.0.1:0", domains and { domains = domains }))
  local lines = assert(net.listen "127.0.0.1:0")
  print(listener:endpoint(), lines:endpoint())
  io.stdout:flush()
  s:spawn(function()
    lines:serve(function(c)
      for line in c:lines() do c:write(line, "\n") end
    end)
  end)
  listener:wait()
end)
