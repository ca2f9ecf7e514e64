-- A value for each domain: made once in each that asks, kept from task to task, gone with the object.
local pl = require "perilune"
local made = pl.atomic(0)
local cache = pl.per_domain(function() made:add(1) return { n = 0 } end)
for _, workers in ipairs { 1, 4 } do
  local pool = pl.pool.new { workers = workers }
  local before = made:load()
  pool:parallel_for(1, 200, function() local c = cache:get() c.n = c.n + 1 end)
  collectgarbage()
  pool:parallel_for(1, 200, function() collectgarbage() local c = cache:get() c.n = c.n + 1 end, { chunk = 50 })
  local count = made:load() - before
  assert(count >= 1 and count <= workers, count)
  if workers == 1 then print(pool:async(function() return cache:get().n end):await()) end
  pool:close()
end
print(cache:get() == cache:get(), cache:get().n, rawequal(cache, cache))
-- Two domains have two.
cache:get().n = "home"
print(pl.domain.spawn(function() return cache:get().n, cache:get() == cache:get() end):join())
-- What the function captures goes along frozen; what it returns is the domain's own.
local start = { 5 }
local list = pl.per_domain(function() return { start[1], list = start } end)
print(pl.domain.spawn(function()
  local l = list:get()
  l[1] = l[1] + 1
  return l[1], pcall(rawset, l.list, 1, 1) == false
end):join())
-- Errors are those of the call; the next call tries again.
local tries = pl.atomic(0)
local late = pl.per_domain(function() if tries:add(1) == 1 then error "not yet" end return "now" end)
print(pcall(late.get, late))
print(pcall(late.get, late))
print(pcall(pl.per_domain, 1))
print(pcall(function() local none = pl.per_domain(function() end) return none:get() end))
local n = 0
print((select(2, pcall(pl.per_domain, function() n = n + 1 return n end)):match "assigns the captured variable 'n'"))
-- One that waits is made once.
local waits = pl.per_domain(function() pl.sleep(0.01) return {} end)
local pool = pl.pool.new { workers = 1 }
local a = pool:async(function() return tostring(waits:get()) end)
local b = pool:async(function() return tostring(waits:get()) end)
print(a:await() == b:await())
pool:close()
