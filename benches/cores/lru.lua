-- A store that keeps what was asked for last, in front of something that takes time to compute; all workers use one.
-- bench: group=cores size=600000 quick=2000
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 600000
local SHARDS, ROOM = 16, 64

local function compute(key)
  local sum = key
  for i = 1, 200 do sum = (sum * 1103 + i) % 1000003 end
  return sum
end

-- A list of entries from the last used one to the first, and a table by key.
local Lru = {}
Lru.__index = Lru

function Lru.new(room)
  local ends = {}
  ends.before, ends.after = ends, ends
  return setmetatable({ by_key = {}, ends = ends, count = 0, room = room, misses = 0 }, Lru)
end

local function unlink(e) e.before.after, e.after.before = e.after, e.before end

local function link(ends, e)
  e.before, e.after = ends, ends.after
  ends.after.before, ends.after = e, e
end

function Lru:get(key, make)
  local e = self.by_key[key]
  if e then
    unlink(e)
  else
    self.misses = self.misses + 1
    e = { key = key, value = make(key) }
    self.by_key[key] = e
    self.count = self.count + 1
    if self.count > self.room then
      local last = self.ends.before
      unlink(last)
      self.by_key[last.key] = nil
      self.count = self.count - 1
    end
  end
  link(self.ends, e)
  return e.value
end

-- What a client asks for: some keys often, others seldom. Neighbours have nothing to do with each other: so the store misses as
-- often whichever order the clients' requests come in, and the work is the same on any number of workers.
local function wanted(i)
  local r = (i * 7919 + 12345) % 1000003
  r = r * (r % 4093 + 7) % 1000003
  return r % 6 == 0 and r % 5000 or r % 300
end

local sum, CLIENTS, BATCH = 0, 8, 100
if pool then
  -- Each part of the store is an actor, so what it does to its list is in order.
  local shards = {}
  for s = 1, SHARDS do
    shards[s] = pool:actor(function(mailbox)
      local lru = Lru.new(ROOM)
      for keys, answer in mailbox do
        local part = 0
        for _, key in ipairs(keys) do part = part + lru:get(key, compute) end
        answer:send(part)
      end
    end)
  end
  local function client(c, shards)
    local total, answer = 0, pl.channel.new()
    for from = c * BATCH, n - 1, CLIENTS * BATCH do
      local asked, sent = {}, 0
      for i = from + 1, math.min(from + BATCH, n) do
        local key = wanted(i)
        local s = key % SHARDS + 1
        local keys = asked[s] or {}
        asked[s] = keys
        keys[#keys + 1] = key
      end
      for s, keys in pairs(asked) do
        shards[s]:send(keys, answer)
        sent = sent + 1
      end
      for _ = 1, sent do total = total + answer:recv() end
    end
    return total
  end
  local tasks = {}
  for c = 0, CLIENTS - 1 do tasks[c + 1] = pool:async(client, c, shards) end
  for _, task in ipairs(tasks) do sum = sum + task:await() end
else
  local shards = {}
  for s = 1, SHARDS do shards[s] = Lru.new(ROOM) end
  for i = 1, n do
    local key = wanted(i)
    sum = sum + shards[key % SHARDS + 1]:get(key, compute)
  end
end
local result = string.format("%d requests, %d", n, sum)
-- What the reference implementation prints.
local known = {
  ["2000"] = "2000 requests, 988566005",
  ["600000"] = "600000 requests, 300797703059",
}
local expected = known[arg and arg[1] or "600000"]
assert(not expected or result == expected, result)
print(result)
