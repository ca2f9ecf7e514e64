-- The cap is not 16: 64 workers on request, all used.
local pl = require "perilune"
local pool = pl.pool.new { workers = 64 }
local here, go = pl.channel.new(), pl.atomic(0)
local tasks = {}
for i = 1, 64 do
  tasks[i] = pool:async(function()
    -- Spins: no wait lets another task of the same domain start.
    go:add(1)
    local stop = pl.now() + 100
    while go:load() < 64 and pl.now() < stop do end
    return pl.domain.self():name()
  end)
end
local names, count = {}, 0
for i = 1, 64 do
  local name = tasks[i]:await()
  if not names[name] then names[name], count = true, count + 1 end
end
assert(count == 64, count .. " workers were used")
print "ok"
