-- Look-ups by computed names in shared dictionaries: from tasks, in scopes, across collections.
local pl = require "perilune"

local N <const> = 300
local plain = {}
for i = 1, N do plain["name" .. i] = i end
local shared = pl.share(plain)

-- Names that die with their scope; the next scope's lie where they were. At the beginning, when epochs are as small as the numbers of answers.
for first = 1, 60 do
  pl.arena(function()
    for i = first, first + 60 do
      local key = "name" .. i
      local hold = { [key] = true }
      assert(shared[key] == i and shared[key] == i and hold[key])
    end
  end)
end

-- Some live on.
local function in_scope(first)
  local sum = 0
  for i = first, first + 40 do
    local key = "name" .. i
    local hold = { [key] = true }
    for _ = 1, 3 do
      local v = shared[key]
      assert(v == plain[key] and hold[key])
      sum = sum + (v or 0)
    end
  end
  return sum, "name" .. first
end

local all, kept = 0, {}
for round = 1, 200 do
  local sum, key = pl.arena(in_scope, round * 3 % (N + 20))
  all = all + sum
  kept[round % 10] = key
  for _, k in pairs(kept) do assert(shared[k] == plain[k] and shared[k] == plain[k]) end
  if round % 50 == 0 then collectgarbage() elseif round % 9 == 0 then collectgarbage "step" end
end
print("scopes", all)

-- A scope that is left by a yield is a collection's business.
local wrapped = coroutine.wrap(function()
  pl.arena(function()
    local key = "name" .. 7
    assert(shared[key] == 7 and shared[key] == 7)
    coroutine.yield(key)
    for i = 1, 500 do
      local other = "name" .. i
      assert(shared[other] == plain[other] and shared[other] == plain[other])
    end
    assert(shared[key] == 7)
  end)
end)
print(shared[wrapped()])
for i = 1, 500 do local k = "name" .. i; assert(shared[k] == plain[k] and shared[k] == plain[k]) end
collectgarbage()
wrapped()

-- Tasks of two workers, each with strings of its own, over islands that come and go.
local pool = pl.pool.new { workers = 2 }
local function reads(d, from, n)
  local sum = 0
  for _ = 1, 3 do
    for i = 1, n do
      local key = "name" .. i
      local v = d[key]
      assert(v == from + i and d[key] == v and d["none" .. i] == nil)
      sum = sum + v
    end
    collectgarbage "step"
  end
  return sum
end
local total = 0
for round = 1, 20 do
  local d = {}
  for i = 1, 50 do d["name" .. i] = round * 100 + i end
  local s = pl.share(d)
  local a, b = pool:async(reads, s, round * 100, 50), pool:async(reads, s, round * 100, 50)
  total = total + a:await() + b:await()
  s, d = nil, nil
  if round % 4 == 0 then collectgarbage() end
end
pool:close()
print("tasks", total)
