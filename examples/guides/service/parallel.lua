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

-- A place in `places` for each request that is under way; `results` has what became of it.
local places = pl.channel.new(AT_ONCE, "places")
local results = pl.channel.new(nil, "results")
local done, failed, late, sum = 0, 0, 0, 0

local function collect()
  local state, result = results:recv()
  if state == "done" then
    done, sum = done + 1, (sum + result) % 1000003
  elseif state == "late" then
    late = late + 1
  else
    failed = failed + 1
  end
end

local every_second = pl.every(1, function()
  io.stderr:write(string.format("%d answered, %d failed, %d late, %d under way\n", done, failed, late, #places))
end)

local pool = pl.pool.default()
local under_way = 0
for request in requests do
  places:send(true)
  local settled = pl.atomic(0) -- 1 from when it is clear whether the answer or the time came first
  local task = pool:async(function()
    local ok, result = pcall(handle, request)
    if settled:exchange(1) == 0 then
      results:send(ok and "done" or "failed", result)
      places:recv()
    end
  end)
  pl.after(LIMIT, function()
    if settled:exchange(1) == 0 then
      task:cancel()
      results:send "late"
      places:recv()
    end
  end)
  under_way = under_way + 1
  while #results > 0 do
    collect()
    under_way = under_way - 1
  end
end
for _ = 1, under_way do collect() end
every_second:cancel()
clients:join()
print(string.format("%d answered, %d failed, sum %d", done, failed, sum))
