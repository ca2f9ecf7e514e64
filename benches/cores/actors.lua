-- A thousand actors that pass messages round a ring; without a pool they are coroutines with lists.
-- bench: group=cores size=200 quick=2
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local rounds = tonumber(arg and arg[1]) or 200
local N = 1000

local function step(i, token) return (token * 31 + i) % 1000003 end

local sum = 0
if pool then
  local done = pl.channel.new()
  -- Each is told its successor, then passes on what comes, with so many passes left.
  local function member(mailbox, i)
    local next_one = mailbox:recv()
    for token, left in mailbox do
      token = step(i, token)
      if left == 0 then
        done:send(token)
      else
        next_one:send(token, left - 1)
      end
    end
  end
  local ring = {}
  for i = 1, N do ring[i] = pool:actor(member, i) end
  for i = 1, N do ring[i]:send(ring[i % N + 1]) end
  -- As many tokens on their way as there are actors.
  for i = 1, N do ring[i]:send(i, rounds - 1) end
  for _ = 1, N do sum = sum + done:recv() end
  for i = 1, N do ring[i]:close() end
else
  local ring, box, ready, first, last = {}, {}, {}, 1, N
  for i = 1, N do
    box[i] = {}
    ring[i] = coroutine.wrap(function()
      while true do
        local letter = table.remove(box[i], 1)
        if not letter then
          coroutine.yield()
        else
          local token, left = step(i, letter[1]), letter[2]
          if left == 0 then
            sum = sum + token
          else
            local to = box[i % N + 1]
            to[#to + 1] = { token, left - 1 }
            last = last + 1
            ready[last] = i % N + 1
          end
        end
      end
    end)
    box[i][1] = { i, rounds - 1 }
    ready[i] = i
  end
  while ready[first] do
    local i = ready[first]
    ready[first] = nil
    first = first + 1
    ring[i]()
  end
end
local result = string.format("%d messages, %d", N * rounds, sum)
-- What the reference implementation prints.
local known = { ["2"] = "2000 messages, 496996500", ["200"] = "200000 messages, 497119649" }
local expected = known[arg and arg[1] or "200"]
assert(not expected or result == expected, result)
print(result)
