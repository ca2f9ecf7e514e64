-- Everything that orders accesses, once each.
local pl = require "perilune"
local pool = pl.pool.new { workers = 3 }
local a = pl.array("i64", 100)
local function bump(i) a[i] = a[i] + 1 end

-- Start and end of tasks, domains, loops.
bump(1)
pool:async(bump, 1):await()
bump(1)
pl.domain.spawn(bump, 1):join()
bump(1)
local t = pool:async(bump, 1)
while t:status() == "pending" do pl.sleep(0) end
bump(1)
t = pool:async(function() bump(1) error("after it", 0) end)
pcall(t.await, t)
bump(1)
pl.await_all { pool:async(bump, 1), pool:async(bump, 2) }
bump(1) bump(2)
local d = pl.domain.spawn(bump, 1)
while d:status() == "running" do pl.sleep(0) end
bump(1)
local list = { pool:async(bump, 1), pool:async(bump, 2) }
bump(select(1, pl.await_any(list)))
pl.await_all(list)
for round = 1, 3 do pool:parallel_for(1, 100, bump) end
pcall(pool.parallel_for, pool, 1, 100, function(i) bump(i) if i == 50 then error "" end end)
for i = 1, 100 do bump(i) end
a:fill(0) assert(a:sum() == 0)

-- Tasks of tasks, loops of tasks.
local function tree(pool, lo, hi)
  if lo == hi then return bump(lo) end
  local mid = (lo + hi) // 2
  local left, right = pool:async(tree, pool, lo, mid), pool:async(tree, pool, mid + 1, hi)
  left:await() right:await()
  for i = lo, hi do bump(i) end
  pool:parallel_for(lo, hi, bump)
end
tree(pool, 1, 16)

-- What combines comes after what is combined, and may use it.
local sums = pool:parallel_reduce(1, 50, pl.array("i64", 3), function(i)
  local one = pl.array("i64", 3)
  one[i % 3 + 1] = i
  return one
end, function(x, y)
  for k = 1, 3 do x[k] = x[k] + y[k] end
  return x
end)
assert(sums:sum() == 1275)
local sorted = pl.array("i64", 1000)
for i = 1, 1000 do sorted[i] = i * 7919 % 1000 end
pool:sort(sorted)
local prefixes = pool:parallel_scan(sorted, function(x, y) return x + y end)
assert(prefixes[1000] == 499500 and sorted[1000] == 999)
assert(pool:parallel_find(1, 1000, function(i) return sorted[i] == 500 end) == 501)
assert(#pool:map(sorted, function(x) return x + 1 end) == 1000)

-- Messages, their answers, closing.
local c, back, gone = pl.channel.new(), pl.channel.new(0), pl.channel.new()
d = pl.domain.spawn(function()
  for i in c do bump(i) back:send(i) end
  bump(9)
  gone:close()
  bump(10)
end)
for i = 1, 3 do bump(i) c:send(i) bump(back:recv()) end
c:close()
gone:recv()
bump(9)
d:join()
bump(10)
-- A rendezvous orders both ways.
local meet = pl.channel.new(0)
d = pl.domain.spawn(function() bump(11) meet:recv() meet:recv() bump(12) end)
bump(12)
meet:send(1)
meet:send(2)
bump(11)
d:join()
-- A channel with room for one is a lock.
local lock, before = pl.channel.new(1), a[13]
local function locked() for _ = 1, 20 do lock:send(true) bump(13) lock:recv() end end
list = {}
for k = 1, 4 do list[k] = pl.domain.spawn(locked) end
for k = 1, 4 do list[k]:join() end
assert(a[13] == before + 80)
-- select, with either kind of case; a message that nobody was waiting for; try_ and timeouts.
local x, y = pl.channel.new(), pl.channel.new(0)
d = pl.domain.spawn(function()
  bump(14)
  pl.channel.select { { x, 1 } }
  pl.channel.select { { y, 1 } }
  bump(15)
  x:send_timeout(1, 2)
  bump(16)
  x:try_send(3)
end)
pl.channel.select { x }
bump(14)
bump(15)
pl.channel.select { y }
x:recv_timeout(5)
bump(15)
while not x:try_recv() do pl.sleep(0) end
bump(16)
d:join()
-- Empty means received.
d = pl.domain.spawn(function() while x:recv() do end end)
x:send(1)
while #x > 0 do pl.sleep(0) end
x:close()
d:join()

-- Atomics: a flag, a lock, a counter whose last one goes on.
local flag = pl.atomic(false)
d = pl.domain.spawn(function() bump(17) flag:store(true) end)
while not flag:load() do pl.sleep(0) end
bump(17)
d:join()
local taken = pl.atomic(0)
before = a[18]
pool:parallel_for(1, 100, function()
  while not taken:cas(0, 1) do pl.sleep(0) end
  bump(18)
  taken:store(0)
end)
assert(a[18] == before + 100)
local arrived = pl.atomic(0)
local parts = pl.array("i64", 8)
pool:parallel_for(1, 8, function(i)
  parts[i] = i
  if arrived:add(1) == 8 then assert(parts:sum() == 36) end
end)
local any = pl.atomic("")
d = pl.domain.spawn(function() bump(19) any:update(function(v) return v .. "x" end) end)
while any:exchange("") == "" do pl.sleep(0) end
bump(19)
d:join()

-- Keys of maps; elements that are changed with add and cas.
local m = pl.map()
d = pl.domain.spawn(function() bump(20) m:set("twenty", true) bump(21) m:add("n") m:cas("k", nil, 1) end)
while not m:get "twenty" do pl.sleep(0) end
bump(20)
while #m < 3 do pl.sleep(0) end
bump(21)
for k, v in pairs(m) do bump(20) end
d:join()
local gate = pl.array("i32", 2)
list = {}
for k = 1, 3 do
  list[k] = pl.domain.spawn(function()
    for _ = 1, 20 do
      while not gate:cas(1, 0, 1) do pl.sleep(0) end
      bump(22)
      gate:cas(1, 1, 0)
    end
  end)
end
for k = 1, 3 do list[k]:join() end

-- Lanes, timers, fibers of one domain, the end of a pool.
local lane = pool:lane "l"
for _ = 1, 40 do lane:async(bump, 23) end
lane:async(bump, 23):await()
for _ = 1, 3 do lane:async(bump, 23) end
lane:async(function() end):await()
bump(23)
local rang = pl.channel.new()
pl.after(0.001, function() bump(24) rang:send() end)
bump(24)
rang:recv()
bump(24)
pool:async(function()
  bump(25)
  local rang = pl.channel.new()
  pl.after(0, function() bump(25) rang:send() end)
  rang:recv()
  bump(25)
end):await()
local co = coroutine.wrap(function() while true do bump(26) coroutine.yield() end end)
for _ = 1, 3 do co() bump(26) end
for i = 1, 50 do pool:async(bump, i) end
pool:close()
for i = 1, 50 do bump(i) end
-- Elements that are read by all.
pool = pl.pool.default()
local table_of = pl.array("f64", 10):fill(2)
assert(pool:parallel_reduce(1, 100, 0, function(i) return table_of[i % 10 + 1] end, function(p, q) return p + q end) == 200)
table_of:fill(3)
print "ok"
