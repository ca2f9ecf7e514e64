-- A least-recently-used cache: a dictionary and a linked list, entries promoted, evicted and made anew.
-- bench: group=retained size=400000 quick=50000
local n = tonumber(arg and arg[1]) or 400000

local Cache = {}
Cache.__index = Cache
function Cache.new(limit)
  local ends = {}
  ends.next, ends.prev = ends, ends
  return setmetatable({ limit = limit, size = 0, map = {}, ends = ends, hits = 0, misses = 0, evicted = 0 }, Cache)
end
local function unlink(e) e.prev.next = e.next; e.next.prev = e.prev end
local function link(ends, e)
  e.next, e.prev = ends.next, ends
  ends.next.prev = e
  ends.next = e
end
function Cache:get(key)
  local e = self.map[key]
  if e then
    self.hits = self.hits + 1
    unlink(e)
    link(self.ends, e)
    return e.value
  end
  self.misses = self.misses + 1
  if self.size == self.limit then
    local oldest = self.ends.prev
    unlink(oldest)
    self.map[oldest.key] = nil
    self.size = self.size - 1
    self.evicted = self.evicted + 1
  end
  e = { key = key, value = { key, "v" } }
  self.map[key] = e
  link(self.ends, e)
  self.size = self.size + 1
  return e.value
end

local seed = 8
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local cache = Cache.new(20000)
for _ = 1, n do
  local key = random(random(60000) + 1)
  assert(cache:get(key)[1] == key)
end
assert(cache.hits + cache.misses == n and cache.misses == cache.evicted + cache.size)
local walked, e = 0, cache.ends.next
while e ~= cache.ends do
  assert(cache.map[e.key] == e)
  walked = walked + 1
  e = e.next
end
assert(walked == cache.size)
print(string.format("lru %d %d", cache.hits, cache.evicted))
