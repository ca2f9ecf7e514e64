-- Errors that no function of the program raises, but the library for what such a function has returned or what a list holds: they
-- name the program's call, and no line of the library's own.
local pl = require "perilune"
local pool <close> = pl.pool.new { workers = 2 }

local function shown(f)
  local ok, message = pcall(f)
  print(ok, message)
  assert(not ok and not message:find("perilune:", 1, true))
end

-- One element: of two, either may be the first to fail.
shown(function() pool:map({ 1 }, function() return "x" end, { into = pl.array("f64", 1) }) end)
shown(function() pool:map({ 1, 2 }, function() return 1 end, { into = {} }) end)
shown(function() pool:sort { 1, "x", {} } end)
shown(function()
  local t = {}
  for i = 1, 500 do t[i] = i % 7 end
  pool:sort(t, function() return true end)
end)
shown(function() pl.map():update "k" end)
shown(function() pl.atomic():update(5) end)
-- A table that can be called is as good as a function.
print(pl.atomic(4):update(setmetatable({}, { __call = function(_, v) return v + 1 end })))

-- What the program's functions raise keeps its own position and traceback.
local function first_line(f)
  local _, message = pcall(f)
  print(message:match "^[^\n]*", message:find "stack traceback" ~= nil)
end
first_line(function() pool:map({ 1, 2 }, function(v) error("mine " .. v) end, { into = pl.array("f64", 1 + 1), chunk = 2 }) end)
first_line(function() pool:sort({ 3, 1, 2 }, function() error "order" end) end)
first_line(function() pool:parallel_scan({ 1, 2, 3 }, function() error "op" end) end)

-- What such a function has returned cannot go to the caller: the error is one of the program's call, also if that is a tail call; of a task and of a domain it names the function.
local function coroutines() return coroutine.create(print) end
shown(function() return (pool:map({ 1 }, coroutines)) end)
shown(function() return (pool:map({ 1 }, function(_, _, further) return { further, { co = coroutines() } } end, nil, 5)) end)
shown(function() return (pool:parallel_scan({ 1, 2, 3 }, coroutines, { chunk = 2 })) end)
shown(function() return (pool:parallel_reduce(1, 10, 0, coroutines, function(a) return a end)) end)
shown(function() return (pool:parallel_find(1, 10, coroutines)) end)
shown(function() return (pool:async(coroutines):await()) end)
shown(function() return (pl.domain.spawn(coroutines):join()) end)
shown(function() return pool:map({ 1 }, coroutines) end)
shown(function() return pool:map({ 1 }, print, { into = {} }) end)
shown(function() return pool:sort(5) end)
shown(function() return pl.all(5) end)

-- A loop that is called as pool:map is says what to write.
shown(function() pool:parallel_find({ 1 }, print) end)
shown(function() pool:parallel_for(pl.array("f64", 2), print) end)
shown(function() pool:parallel_reduce({ 1 }, print) end)
shown(function() pool:parallel_find("x", print) end)

-- Time that is over.
local never = pl.channel.new()
print(pool:parallel_scan({ 1, 2, 3 }, function() return never:recv() end, { timeout = 0.01 }))
local list = { 3, 1, 2 }
print(pool:sort(list, function() return never:recv() end, { timeout = 0.01 }))
print(table.concat(list, " "))
print(pool:sort(list, nil, { timeout = 1000 }), table.concat(list, " "))
print(pool:sort({}, nil, { timeout = 1000 }), pool:parallel_scan({}, math.max, { timeout = 1000 })[1])
print(pcall(pool.sort, pool, list, nil, { timout = 1 }))
