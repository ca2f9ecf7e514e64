-- The service that quotes prices, for clients on the network. A request is a line "ITEM AMOUNT", the answer a line "ok PRICE" or
-- "error MESSAGE".
--
--   perilune server.lua 127.0.0.1:7000        serves until Ctrl-C
--   perilune server.lua                       serves on a free port, and is its own client: 60 requests on 8 connections

local pl = require "perilune"
local net = require "perilune.net"
local pool = pl.pool.default()
local LIMIT <const> = 5.0
local places = pl.semaphore(64)

-- Stands for a data base: it answers after 2 ms, and one item in 50 it does not know.
local function backend(item)
  pl.sleep(0.002)
  if item % 50 == 0 then error("no item " .. item, 0) end
  return 100 + item * 37 % 900
end

local function quote(price, amount)
  local total = 0
  for i = 1, amount * 100 do total = (total * 31 + price * i) % 1000003 end
  return total
end

local function handle(request)
  return quote(backend(request.item), request.amount)
end

local function answer(line)
  local item, amount = line:match "^(%d+) (%d%d?%d?)$"
  if not item then return "error a request is ITEM AMOUNT, with an amount below 1000" end
  local permit <close> = places:permit()
  local task = pool:async(handle, { item = tonumber(item), amount = tonumber(amount) })
  local ok, result, why = pcall(task.await, task, LIMIT)
  if ok and why == "timeout" then
    task:cancel()
    return "error timeout"
  end
  return ok and "ok " .. result or "error " .. result:match "^[^\n]*"
end

-- One client; it runs as a fiber of its own.
local function serve(connection)
  local open <close> = connection
  connection:set { read_timeout = 60 }
  while true do
    local line = connection:read_line(1024)
    if not line then break end -- gone, or silent for a minute, or a line without end
    connection:write(answer(line), "\n")
  end
end

local function clients(address)
  local net = require "perilune.net"
  local done, failed, sum = 0, 0, 0
  pl.scope(function(scope)
    for c = 0, 7 do
      scope:spawn(function()
        local connection <close> = assert(net.connect(address))
        for n = 1, 60 do
          if n % 8 == c then
            connection:write(n, " ", n % 40 + 1, "\n")
            local price = assert(connection:read_line()):match "^ok (%d+)$"
            if price then done, sum = done + 1, (sum + price) % 1000003 else failed = failed + 1 end
          end
        end
      end)
    end
  end)
  return done, failed, sum
end

local listener = assert(net.listen(arg[1] or "127.0.0.1:0"))
pl.scope(function(scope)
  scope[arg[1] and "spawn" or "daemon"](scope, function()
    for connection in listener do scope:daemon(serve, connection) end
  end)
  if arg[1] then
    io.stderr:write("serving at ", listener:endpoint(), "\n")
  else
    print(string.format("%d answered, %d failed, sum %d", pl.domain.spawn("clients", clients, listener:endpoint()):join()))
  end
end)
