-- Everything that waits, dropped in the middle: by the error of a sibling, by a cancellation, by a timeout, by the end of the task around it.
-- What was waited for is as it was: no message is lost, no permit, no waiter is left that would get what comes later.
local pl = require "perilune"
local pool = pl.pool.new { workers = 3 }

-- name -> begin(): a function that waits, and one that checks and cleans up afterwards
local natives = {
  sleep = function() return function() pl.sleep(100) end end,
  yield = function() return function() while true do pl.yield() end end end,
  recv = function()
    local c = pl.channel.new()
    return function() c:recv() end, function() c:send(1) assert(c:recv() == 1) end
  end,
  recv_timeout = function()
    local c = pl.channel.new()
    return function() c:recv(100) end, function() c:send(1) assert(c:recv() == 1) end
  end,
  iterate = function()
    local c = pl.channel.new()
    return function() for _ in c do end end, function() c:send(1) assert(#c == 1) end
  end,
  send = function()
    local c = pl.channel.new(1)
    c:send "first"
    return function() c:send "second" end, function() assert(c:recv() == "first" and not c:try_recv()) end
  end,
  rendezvous = function()
    local c = pl.channel.new(0)
    return function() c:send "x" end, function() assert(not c:try_recv()) end
  end,
  select = function()
    local a, b = pl.channel.new(), pl.channel.new(0)
    return function() pl.select { a, { b, 1 } } end,
      function() a:send(1) assert(#a == 1 and not b:try_recv()) end
  end,
  select_fiber = function()
    local f = pl.fiber(pl.sleep, 100)
    return function() pl.select { f, pl.after(100) } end, function() assert(f:cancel()) end
  end,
  await_fiber = function()
    local f = pl.fiber(pl.sleep, 100)
    return function() f:await() end, function() assert(f:status() == "pending" and f:cancel()) end
  end,
  await_task = function()
    local t = pool:async(function() require "perilune".sleep(100) end)
    return function() t:await() end, function() assert(t:cancel()) end
  end,
  await_all = function()
    local t = pool:async(function() require "perilune".sleep(100) end)
    return function() pl.await_all { t } end, function() assert(t:cancel()) end
  end,
  await_any = function()
    local t = pool:async(function() require "perilune".sleep(100) end)
    return function() pl.await_any { t } end, function() assert(t:cancel()) end
  end,
  join = function()
    local stop = pl.channel.new()
    local d = pl.domain.spawn(function() stop:recv() end)
    return function() d:join() end, function() stop:send(1) d:join() end
  end,
  acquire = function()
    local s = pl.semaphore(1)
    s:acquire()
    return function() s:acquire() end, function() s:release() assert(s:try_acquire()) end
  end,
  with = function()
    local s = pl.semaphore(1)
    return function() s:with(pl.sleep, 100) end, function() assert(s:free() == 1) end
  end,
  parallel_for = function()
    return function() pool:parallel_for(1, 8, function() require "perilune".sleep(100) end) end
  end,
  map = function()
    return function() pool:map({ 1, 2 }, function() require "perilune".sleep(100) end) end
  end,
  close = function()
    local own = pl.pool.new { workers = 1 }
    local t = own:async(function() require "perilune".sleep(100) end)
    return function() own:close() end, function() t:cancel() own:close() end
  end,
  scope = function() return function() pl.scope(function() pl.sleep(100) end) end end,
  timeout = function() return function() pl.timeout(100, pl.sleep, 100) end end,
  all = function() return function() pl.all { function() pl.sleep(100) end, function() pl.sleep(100) end } end end,
  race = function() return function() pl.race { function() pl.sleep(100) end } end end,
  each = function() return function() pl.each({ 1, 2 }, pl.sleep) end end,
  timer = function()
    local t = pl.after(100)
    return function() t:wait() end
  end,
  popen = function()
    return function() local p <close> = io.popen "sleep 0.2" p:read "a" end
  end,
}

-- A busy machine may begin a fiber late.
local begun = false
local function a_moment_after_it_began()
  while not begun do pl.sleep(0.001) end
  pl.sleep(0.003)
end

local ways = {
  sibling = function(f)
    local ok, e = pcall(pl.scope, function(s)
      s:spawn(f)
      s:spawn(function() a_moment_after_it_began() error("sibling", 0) end)
    end)
    assert(not ok and e:match "^sibling", e)
  end,
  cancel = function(f)
    pl.scope(function(s)
      local fiber = s:spawn(f)
      a_moment_after_it_began()
      fiber:cancel()
    end)
  end,
  at_once = function(f)
    pl.scope(function(s)
      s:spawn(f):cancel()
      pl.yield()
      s:cancel()
    end)
  end,
  timeout = function(f)
    local ok, why = pl.timeout(0.003, f)
    assert(ok == nil and why == "timeout")
  end,
  daemon = function(f)
    pl.scope(function(s) s:daemon(f) a_moment_after_it_began() end)
  end,
  closing = function(f)
    -- the wait is in a closing method of something that is cancelled: it may wait, and its own limit ends it
    pl.scope(function(s)
      local fiber = s:spawn(function()
        local c <close> = setmetatable({}, { __close = function() pl.timeout(0.003, f) end })
        pl.sleep(100)
      end)
      pl.yield()
      fiber:cancel()
    end)
  end,
}

local names, ways_in_order = {}, {}
for name in pairs(natives) do names[#names + 1] = name end
for name in pairs(ways) do ways_in_order[#ways_in_order + 1] = name end
table.sort(names)
table.sort(ways_in_order)
for _, name in ipairs(names) do
  for _, way in ipairs(ways_in_order) do
    local closed = 0
    begun = false
    local wait, check = natives[name]()
    local function waits()
      begun = true
      local c <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
      for _ = 1, 3 do
        local co = coroutine.wrap(function() pcall(wait) end)
        pcall(co)
      end
      error "a cancellation was swallowed"
    end
    local ok, e = pcall(ways[way], waits)
    if not ok then print(name, way, e) end
    if check then
      local ok, e = pcall(check)
      if not ok then print(name, way, "afterwards", e) end
    end
    -- One whose time is over before it begins does not begin.
    local may_not_begin = way == "at_once" or way == "timeout" or way == "closing"
    if closed > 1 or closed == 0 and not may_not_begin then print(name, way, "closed", closed) end
  end
end
print(#names, "natives")
