-- A service that quotes prices: a request asks a backend, which takes its time, then computes. One request after the other.
--
--   perilune sequential.lua [REQUESTS]        default: 60

local pl = require "perilune"
local REQUESTS <const> = tonumber(arg[1]) or 60

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

local done, failed, sum = 0, 0, 0
for n = 1, REQUESTS do
  local ok, result = pcall(handle, { item = n, amount = n % 40 + 1 })
  if ok then
    done, sum = done + 1, (sum + result) % 1000003
  else
    failed = failed + 1
  end
end
print(string.format("%d answered, %d failed, sum %d", done, failed, sum))
