-- stress: no
-- Loops that hand further arguments on; maps that balance themselves, of lists, arrays and dictionaries; tasks beside running loops; options.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local function first_line(s) return (tostring(s):match "[^\n]*") end

-- what comes after the options goes to each call
local sum = pl.atomic(0)
pool:parallel_for(1, 100, function(i, cfg, more) sum:add(i * cfg.k + more) end, nil, { k = 3 }, 1)
print(sum:load())
pool:parallel_for(1, 3, function(...) assert(select("#", ...) == 4 and select(3, ...) == nil) end, {}, 1, nil, nil)
print(pool:parallel_reduce(1, 10, 0, function(i, a, b, c) return i * a + b + c end,
  function(a, b) return a + b end, { chunk = 2 }, 2, 1, 0))
print(pool:parallel_find(1, 100, function(i, at) return i > at and "found" end, {}, 42))
print(table.concat(pool:parallel_scan({ 1, 2, 3 }, function(a, b, m) return (a + b) % m end, { chunk = 1 }, 5), " "))
print(table.concat(pool:map({ 5, 6, 7 }, function(v, i, a, b) return v * i + a + b end, nil, 100, 1000), " "))
-- they are frozen over there, since which calls would share a copy depends on who runs them
print(first_line(select(2, pcall(function()
  pool:parallel_for(1, 10, function(i, t) t.x = i end, nil, {})
end))):match "attempt to modify a frozen copy")
print(first_line(select(2, pcall(function()
  pool:parallel_for(1, 10, function(i, t) if i == 7 then error("at " .. i) end end, nil, {})
end))))
local count = 0
print(first_line(select(2, pcall(function()
  pool:parallel_for(1, 10, function(i, t) count = count + 1 end, nil, {})
end))):match "captured variable 'count'")

-- maps
print(#pool:map({}, print), next(pool:map({}, print)))
local r = pool:map({ a = 1, b = 2, [1] = 3, [2.5] = 4 }, function(v, k) return tostring(k) .. v end)
print(r.a, r.b, r[1], r[2.5], r[2])
local r = pool:map({ x = 1, y = 2 }, function(v) if v == 2 then return "two" end end, { chunk = 1 })
print(r.x, r.y)
local into = pl.array("f64", 1000)
local t = {}
for i = 1, 1000 do t[i] = i end
print(pool:map(t, function(v, i) return v * 2 + i end, { into = into, chunk = 7 }) == into, into:sum())
print(pool:map(t, function(v, i) return v end, { into = into }) == into, into:sum())
local source = pl.array("i64", 100):fill(2)
print(#pool:map(source, function(v, i) return v + i end), pool:map(source, function(v, i) return v + i end)[100])
local island = pl.share { p = { 1 }, q = { 2 } }
print(pool:map(island, function(v, k) return k .. v[1] end).q)
local squares = pool:map(t, function(v, i) assert(v == i) return v * v end)
for i = 1, 1000 do assert(squares[i] == i * i) end

-- expensive elements that are neighbours do not stay with one worker
local function work(n)
  local x = 0
  for i = 1, n do x = x + i % 7 end
  return x
end
local costs = {}
for i = 1, 64 do costs[i] = i <= 56 and 100 or 3000000 end
local workers, most
repeat
  local who = pool:map(costs, function(n)
    work(n)
    return require "perilune".domain.self():id()
  end)
  local heavy = {}
  for i = 57, 64 do heavy[who[i]] = (heavy[who[i]] or 0) + 1 end
  workers, most = 0, 0
  for _, n in pairs(heavy) do workers, most = workers + 1, math.max(most, n) end
  -- Again, if one of the workers had no processor meanwhile.
until workers == 2
print(workers, most < 8)

-- errors and cancellations leave nothing behind
print(first_line(select(2, pcall(pool.map, pool, t, function(v) if v == 500 then error "at 500" end return v end))))
local begun = pl.channel.new()
print(pl.timeout(0.3, function()
  pool:map({ 1, 2, 3, 4 }, function(v) begun:send(v) require "perilune".sleep(100) end)
end))
print(#begun > 0, pool:async(function() return "the pool is free" end):await())

-- a task does not wait for a loop to end, nor does a fiber that is ready
local over, started = pl.atomic(false), pl.atomic(0)
local loop = pl.domain.spawn(function()
  return pcall(pool.parallel_for, pool, 1, 1 << 40, function()
    started:add(1)
    if over:load() then error("over", 0) end
    work(1000)
  end)
end)
-- It lasts until the tasks have ended.
while started:load() < 100 do pl.sleep(0.001) end
local slow = pool:async(function() require "perilune".sleep(0.02) return over:load() end)
local before = 0
for _ = 1, 10 do before = before + pool:async(function() return 1 end):await() end
print(before == 10, slow:await())
over:store(true)
assert(not loop:join())

-- options that nobody knows, and values of the wrong type
local function refused(f, ...)
  print((select(2, pcall(f, ...)):gsub("^[^:]*:%d+: ", "")))
end
refused(pl.pool.new, { worker = 2 })
refused(pl.pool.new, { workers = "two" })
refused(pl.pool.new, { workers = 0 })
refused(pl.pool.new, { 2 })
refused(pl.pool.new, { size = 2 })
refused(function() pool:parallel_for(1, 2, print, { chnk = 2 }) end)
refused(function() pool:parallel_for(1, 2, print, { chunk = 0 }) end)
refused(function() pool:parallel_for(1, 2, print, 5) end)
refused(function() pool:parallel_find(1, 2, print, { chunks = 2 }) end)
refused(function() pool:map({}, print, { chunks = 1 }) end)
refused(function() pool:map({}, print, { into = {} }) end)
refused(function() pool:map({}, print, { chunk = 0 }) end)
refused(function() pool:map({ 1, 2, 3 }, print, { into = pl.array("f64", 2) }) end)
refused(function() pool:map({ x = 1 }, print, { into = pl.array("f64", 2) }) end)
refused(pl.domain.spawn, { nme = "x" }, print)
refused(pl.domain.spawn, { memory = "1G" }, print)
refused(pl.limit, { memry = 1 })
refused(pl.inspect, {}, { widht = 10 })
refused(pl.trace.start, { fil = "x" })
refused(pl.select, { pl.channel.new(), timout = 1 })
refused(pl.await_all, { timeout = "soon" })
refused(pl.each, {}, { limit = 0 }, print)
refused(pl.each, {}, { limits = 1 }, print)
refused(function() pl.channel.new():recv { time = 1 } end)
