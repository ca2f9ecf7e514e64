-- A service that quotes prices: requests come through a channel, each is a task with a time limit, and a limited number of
-- them is under way.
--
--   perilune parallel.lua [REQUESTS] [LIMIT]  default: 60 requests, 5 seconds for each

local pl = require "perilune"
local REQUESTS <const> = tonumber(arg[1]) or 60
local AT_ONCE <const> = 64
local LIMIT <const> = tonumber(arg[2]) or 5.0

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

-- What comes in. The channel is bounded: who sends faster than the service works has to wait.
local requests = pl.channel.new(16, "requests")
local clients = pl.domain.spawn("clients", function()
  for n = 1, REQUESTS do requests:send({ item = n, amount = n % 40 + 1 }) end
  requests:close()
end)

local pool = pl.pool.default()
local places = pl.semaphore(AT_ONCE)
local done, failed, late, sum = 0, 0, 0, 0

-- Waits for the answer to one request, and counts. It runs as a fiber of this domain, so plain variables do.
local function answer(request)
  local task = pool:async(handle, request)
  local ok, result, why = pcall(task.await, task, LIMIT)
  if not ok then
    failed = failed + 1
  elseif why == "timeout" then
    task:cancel()
    late = late + 1
  else
    done, sum = done + 1, (sum + result) % 1000003
  end
  places:release()
end

pl.scope(function(scope)
  scope:daemon(function()
    while true do
      pl.sleep(1)
      io.stderr:write(string.format("%d answered, %d failed, %d late\n", done, failed, late))
    end
  end)
  for request in requests do
    places:acquire()
    scope:spawn(answer, request)
  end
end)
clients:join()
if late > 0 then io.stderr:write(late, " took too long\n") end
print(string.format("%d answered, %d failed, sum %d", done, failed, sum))
