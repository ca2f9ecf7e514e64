-- Random use of everything at once: domains, tasks, channels, islands, arrays, cancellation, errors, closing.
-- Arguments: seconds (or rounds=N), seed. Ends with "ok" and figures on standard error; any other end is a bug. Under
-- PERILUNE_MEMORY an action may fail with "not enough memory", and with nothing else.
local pl = require "perilune"
local most = tonumber((arg[1] or ""):match "^rounds=(%d+)$") or math.huge
local seconds, seed = tonumber(arg[1]) or most < math.huge and 60 or 2, tonumber(arg[2]) or 42
local limited = os.getenv "PERILUNE_MEMORY"
math.randomseed(seed)
local random = math.random
local only = tonumber(arg[3]) -- one action alone, to find out which it is

local universe = pl.share { list = { 1, 2, 3 }, names = { a = 1, b = 2 }, deep = { { { "x" } } } }
local counter = pl.atomic(0)
local cells = pl.array("i64", 64)
local map = pl.map()
local pool = pl.pool.new { workers = 3, name = "stress" }
local inbox = pl.channel.new(16, "inbox")
local stats = {}

local function value(depth)
  local k = random(1, depth > 3 and 6 or 10)
  if k == 1 then return random(1, 1000)
  elseif k == 2 then return random()
  elseif k == 3 then return ("s"):rep(random(0, 60))
  elseif k == 4 then return true
  elseif k == 5 then return universe.deep
  elseif k == 6 then return counter
  end
  local t = {}
  for i = 1, random(0, 5) do t[random(2) == 1 and i or "k" .. i] = value(depth + 1) end
  return t
end

local function count(name) stats[name] = (stats[name] or 0) + 1 end

local function work(n, seed)
  local s, t = seed, {}
  for i = 1, n do
    s = (s * 1103515245 + 12345) % 2147483648
    t[#t + 1] = { s, tostring(s) }
    if #t > 100 then t = {} end
  end
  counter:add(1)
  cells:add(s % 64 + 1, 1)
  return #t, universe.list[s % 3 + 1]
end

local actions = {
  function()
    count "spawn"
    local d = pl.domain.spawn(function(f, n, v) local a, b = f(n, n + 1) return a, b, v end, work, random(1, 3000), value(0))
    if random(4) > 1 then d:join() end
  end,
  function()
    count "tasks"
    local tasks = {}
    for i = 1, random(1, 30) do tasks[i] = pool:async(work, random(1, 500), i) end
    if random(3) == 1 then pl.await_any(tasks) end
    for i, t in ipairs(tasks) do if random(3) > 1 then t:await() end end
  end,
  function()
    count "cancel"
    local gate = pl.channel.new(0)
    local t = pool:async(function()
      local guard <close> = setmetatable({}, { __close = function() counter:add(1) end })
      if gate then gate:recv_timeout(0.05) end
      while true do end
    end)
    if random(2) == 1 then pl.sleep(0.001) end
    t:cancel()
    pcall(t.await, t)
  end,
  function()
    count "error"
    local v = value(0)
    local t = pool:async(function(v) error(v) end, v)
    local ok = pcall(t.await, t)
    assert(not ok)
    local d = pl.domain.spawn(function() local x = nil; return x.field end)
    assert(not pcall(d.join, d))
  end,
  function()
    count "share"
    local v = pl.share { value(0), value(0), { inner = value(1) } }
    local d = pool:async(function(v) return pl.share { v, { v } } end, v)
    local w = d:await()
    assert(w[1] == v and w[2][1] == v)
    map:set(random(1, 20), w)
    local old = map:get(random(1, 20))
    if old then assert(#old == 2) end
  end,
  function()
    count "channel"
    local c, n = pl.channel.new(random(0, 4)), random(1, 200)
    local d = pl.domain.spawn(function(c, n) for i = 1, n do c:send(i, { i }) end c:close() end, c, n)
    local sum = 0
    for i, t in c do sum = sum + t[1] end
    assert(sum == n * (n + 1) // 2)
    d:join()
  end,
  function()
    count "close"
    local c = pl.channel.new(0)
    local waiting = {}
    for i = 1, 5 do waiting[i] = pool:async(function() return c:recv() end) end
    if random(2) == 1 then pl.sleep(0.001) end
    c:close()
    for i = 1, 5 do assert(waiting[i]:await() == nil) end
  end,
  function()
    count "loops"
    local n = random(1, 2000)
    assert(pool:parallel_reduce(1, n, 0, function(i) return i end, function(a, b) return a + b end) == n * (n + 1) // 2)
    local bad = random(1, n)
    local ok, e = pcall(function() pool:parallel_for(1, n, function(i) if i == bad then error({ bad = i }) end end) end)
    assert(not ok and e.bad == bad)
    assert(pool:parallel_find(1, n, function(i) return i >= bad end) == bad)
  end,
  function()
    count "select"
    local a, b = pl.channel.new(), pl.channel.new(0)
    local d = pool:async(function(a, b) for i = 1, 20 do pl.channel.select { { a, i }, { b, i } } end end, a, b)
    for i = 1, 20 do
      local k, v = pl.channel.select { a, b, timeout = 5 }
      assert(v == i, tostring(v))
    end
    d:await()
  end,
  function()
    count "lanes"
    local at, tasks, names = pl.array("i64", 4), {}, random(4)
    for i = 1, random(60) do
      local lane = i % names + 1
      local bad, wait = random(5) == 1, random(10) == 1
      tasks[i] = pool:lane(lane):async(function(n)
        if at[lane] ~= n then error("overtaken", 0) end
        if wait then pl.sleep(0) end
        at[lane] = n + 1
        if bad then error("bad", 0) end
      end, (i - 1) // names)
    end
    for i = #tasks, 1, -1 do
      local ok, e = pcall(tasks[i].await, tasks[i])
      assert(ok or e:sub(1, 3) == "bad", e)
    end
    -- Some are cancelled, some while they run: the others still come, in order.
    local lane, last, list = pool:lane(), pl.atomic(0), {}
    for i = 1, 20 do
      list[i] = lane:async(function() assert(last:exchange(i) < i) if i % 5 == 0 then pl.sleep(0.001) end return true end)
    end
    for i = 1, 5 do list[random(20)]:cancel() end
    for i = 1, 20 do pcall(list[i].await, list[i]) end
    assert(lane:async(function() return #lane end):await() == 0)
  end,
  function()
    count "timers"
    local c = pl.channel.new()
    local t = pl.every(0.001, function(k) c:send(k) end)
    pl.after(0.001, function() c:send("after") end)
    c:recv() c:recv()
    t:cancel()
  end,
  function()
    count "coroutines"
    local t = pool:async(function(c)
      local co = coroutine.wrap(function()
        local list = { 3, 1, 2 }
        table.sort(list, function(a, b) pl.sleep(0) return a < b end)
        coroutine.yield(table.concat(list))
        return c:recv()
      end)
      return co(), co()
    end, inbox)
    inbox:send("m")
    local a, b = t:await()
    assert(a == "123" and b == "m")
  end,
}

local stop = pl.now() + seconds
local rounds = 0
local refusals = 0
local function act()
  local action = actions[only or random(#actions)]
  if not limited then return action() end
  local ok, e = xpcall(action, debug.traceback)
  if ok then return end
  e = tostring(e)
  if not (e:find("not enough memory", 1, true) or e:find("assertion failed", 1, true)) then error(e, 0) end
  refusals = refusals + 1
  collectgarbage()
end
while rounds < most and pl.now() < stop do
  act()
  rounds = rounds + 1
end
-- Tasks that memory was refused to may have left others waiting for ever.
if not limited then pool:close() end
local names = {}
for k, v in pairs(stats) do names[#names + 1] = k .. "=" .. v end
table.sort(names)
io.stderr:write(rounds, " rounds: ", table.concat(names, " "), " domains=", pl.domain.count(), "\n")
print "ok"
