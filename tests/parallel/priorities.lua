-- Priorities of tasks, and times of loops and of closing.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, (tostring(message):gsub("\n.*", "")))
end

-- One worker that is kept busy until all are queued: the order in which it takes them.
local function order(queue)
  local pool = pl.pool.new { workers = 1 }
  local go, begun, list = pl.channel.new(1), pl.channel.new(1), pl.channel.new()
  local tasks = { pool:async(function()
    begun:send(true)
    local until_then = pl.now() + 20
    while not go:try_recv() and pl.now() < until_then do end
  end) }
  begun:recv()
  queue(function(name, priority)
    tasks[#tasks + 1] = pool:async({ priority = priority }, function() list:send(name) end)
  end)
  go:send(true)
  pl.await_all(tasks)
  list:close()
  local names = {}
  for name in list do names[#names + 1] = name end
  pool:close()
  return names
end

local names = order(function(add)
  add("l", "low")
  for i = 1, 4 do add("n" .. i) end
  for i = 1, 3 do add("h" .. i, "high") end
  add("m", "normal")
end)
local at = {}
for i, name in ipairs(names) do at[name] = i end
print(#names, at.h1 < at.h2 and at.h2 < at.h3, at.h3 <= 4, at.l == #names)

-- Nobody starves: among many of high priority one of eight is another, and one of thirty-two a low one.
names = order(function(add)
  for i = 1, 400 do add("h", "high") end
  for i = 1, 20 do add("n") end
  for i = 1, 5 do add("l", "low") end
end)
local first, count = {}, {}
for i, name in ipairs(names) do
  first[name] = first[name] or i
  count[name] = (count[name] or 0) + 1
  if name == "n" then at.last_n = i elseif name == "l" then at.last_l = i end
end
print(#names, count.h, count.n, count.l, first.n <= 8, first.l <= 32, at.last_n <= 8 * 26, at.last_l <= 32 * 6)

-- A loop that fills the pool gives way to both.
local pool = pl.pool.new { workers = 2 }
local stop = pl.atomic(0)
local loop = pool:async(function()
  pool:parallel_for(1, 1 << 40, function() if stop:load() == 2 then error "over" end end)
end)
for _, priority in ipairs { "high", "low" } do
  pool:async({ priority = priority }, function() stop:add(1) end):await()
end
print(stop:load(), pcall(loop.await, loop) == false)

refused(function() pool:async({ priority = "urgent" }, print) end)
refused(function() pool:async({ priority = 1 }, print) end)
refused(function() pool:async({ prio = "high" }, print) end)
refused(function() pool:async({ priority = "high" }) end)
print(pool:async({}, function(...) return select("#", ...), ... end, 1, nil):await())
print(pool:async({ priority = "high" }, function()
  return pool:async({ priority = "low" }, function() return "inner" end):await()
end):await())

-- Times.
local never = pl.channel.new()
print(pool:parallel_for(1, 10, function() end, { timeout = 60 }))
print(pool:parallel_for(1, 10, function(i) if i == 3 then never:recv() end end, { timeout = 0.05 }))
local closed = pl.atomic(0)
print(pool:parallel_for(1, 2, function()
  local at_end <close> = setmetatable({}, { __close = function() closed:add(1) end })
  while true do end
end, { timeout = 0.05, chunk = 1 }))
print(closed:load() >= 1)
print(pool:parallel_reduce(1, 10, 0, function(i) if i == 5 then never:recv() end return i end, function(a, b) return a + b end, { timeout = 0.05 }))
print(pool:parallel_reduce(1, 10, 0, function(i) return i end, function(a, b) return a + b end, { timeout = 60 }))
print(pool:parallel_find(1, 10, function(i) if i == 5 then never:recv() end end, { timeout = 0.05 }))
print(pool:map({ 1, 2, 3 }, function(x) if x == 2 then never:recv() end return x end, { timeout = 0.05 }))
print(table.concat(pool:map({ 1, 2, 3 }, function(x) return x * 2 end, { timeout = 60 }), " "))
refused(function() pool:map({ 1 }, print, { timeout = "x" }) end)
refused(function() pool:map({ 1 }, print, { timeout = 0 / 0 }) end)
refused(function() pool:parallel_for(1, 2, print, { timeout = 0 / 0 }) end)
refused(function() pool:parallel_for(1, 2, print, { timeout = "x" }) end)
refused(function() pool:parallel_for(1, 2, function(i) if i == 1 then error "first" end end, { timeout = 30, chunk = 1 }) end)
local gate = pl.channel.new()
local last = pool:async(function() return gate:recv() end)
print(pool:close { timeout = 0.05 })
print(pool:close(0))
gate:send "through"
print(pool:close(), last:await())
refused(function() pool:async(print) end)
