-- stress: no
-- Memory that is refused is an error of the operation that asks for it: a `pcall` around it catches it, whatever the fill level. What was refused
-- is still there for whoever asks again, and garbage is collected before anything is refused.
local pl = require "perilune"
local LIMIT <const> = 3 << 20

local PROGRAM = [==[
local pl = require "perilune"
local function make() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end return t end
local function check(t) assert(type(t) == "table" and #t == 3000 and t[3000][2] == "3000") end
local function long() return ("x"):rep(300000) end
local function check_long(s) assert(type(s) == "string" and #s == 300000 and not s:find("[^x]")) end
local pool <const> = pl.pool.new{workers=1}
-- each gives: prepare() -> what is to be called under pcall (function and args), check(result...)
local ops = {
  recv = function() local c = pl.channel.new() c:send(make()) return function() return c:recv() end, check end,
  recv_native = function() local c = pl.channel.new() c:send(make()) return c.recv, check, c end,
  recv_timeout = function() local c = pl.channel.new() c:send(make()) return c.recv_timeout, check, c, 0 end,
  try_recv = function() local c = pl.channel.new() c:send(make()) return function() local ok, v = c:try_recv() assert(ok) return v end, check end,
  recv_offer = function() local c = pl.channel.new(0) 
     pl.domain.spawn(function() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end c:send(t) end) pl.sleep(0.02)
     return function() return c:recv() end, check end,
  recv_wait = function() local c = pl.channel.new(0)
     pl.domain.spawn(function() pl.sleep(0.03) local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end c:send(t) end)
     return function() return c:recv() end, check end,
  iterate = function() local c = pl.channel.new() c:send(make()) c:close() return function() for v in c do return v end end, check end,
  select = function() local c = pl.channel.new() c:send(make()) return function() local i, v = pl.channel.select{c} return v end, check end,
  select_wait = function() local c = pl.channel.new()
     pl.domain.spawn(function() pl.sleep(0.03) local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end c:send(t) end)
     return function() local i, v = pl.channel.select{c} return v end, check end,
  await = function() local t = pool:async(function() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end return t end)
     return function() return t:await() end, check end,
  await_native = function() local t = pool:async(function() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end return t end)
     return t.await, check, t end,
  await_error = function() local t = pool:async(function() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end error(t) end)
     return function() local ok, e = pcall(t.await, t) if type(e) == "string" then error(e, 0) end return e end, check end,
  join = function() local t = pl.domain.spawn(function() local t = {} for i = 1, 3000 do t[i] = {i, tostring(i)} end return t end)
     return function() return t:join() end, check end,
  map_get = function() local m = pl.map() m:set(1, long()) return function() return m:get(1) end, check_long end,
  map_set = function() local m = pl.map() m:set(1, long()) return function() return m:set(1, 0) end, check_long end,
  map_keys = function() local m = pl.map() for i = 1, 3000 do m:set("key" .. i, i) end return function() return m:keys() end, function(k) assert(#k == 3000) end end,
  map_pairs = function() local m = pl.map() for i = 1, 3000 do m:set("key" .. i, i) end return function() local k = {} for key in m:pairs() do k[#k+1] = key end return k end, function(k) assert(#k == 3000) end end,
  load = function() local m = pl.atomic(long()) return function() return m:load() end, check_long end,
  exchange = function() local m = pl.atomic(long()) return function() return m:exchange(0 ) end, check_long end,
  loop = function() return function() return pool:map({1,2,3}, function() local t = {} for i = 1, 1000 do t[i] = {i, tostring(i)} end return t end) end, function(r) assert(#r == 3) end end,
  reduce = function() return function() return pool:parallel_reduce(1, 3, {}, function(i) local t = {} for i = 1, 1000 do t[i] = {i, tostring(i)} end return t end, function(a, b) for _, v in ipairs(b) do a[#a+1] = v end return a end) end, function(r) assert(#r == 3000) end end,
}

return function(what, room, limit)
  local op, check, a, b = ops[what]()
  collectgarbage()
  collectgarbage()
  local keep, n = {}, 0
  while collectgarbage("count") * 1024 < limit - room - 50000 do
    n = n + 1
    keep[n] = ("y"):rep(1000) .. n
  end
  local ok, v = pcall(op, a, b)
  -- Room for this program.
  for i = n, n - 80, -1 do keep[i] = nil end
  if ok then
    check(v)
    return "given"
  end
  assert(tostring(v):find("not enough memory", 1, true), v)
  v, keep = nil, nil
  local small = {}
  for i = 1, 1000 do small[i] = {} end
  check(op(a, b))
  return "refused"
end
]==]

local names = {}
for name in PROGRAM:gmatch("\n  ([%w_]+) = function") do names[#names + 1] = name end
table.sort(names)
for _, what in ipairs(names) do
  local given = 0
  for room = 0, 1300000, 65000 do
    local outcome = pl.domain.spawn({ memory = LIMIT }, function(...) return load(PROGRAM)()(...) end, what, room, LIMIT):join()
    if outcome == "given" then given = given + 1 end
  end
  assert(given > 0)
  print(what)
end

-- Garbage never makes an allocation fail.
local function often(name, f)
  print(name, pl.domain.spawn({ memory = LIMIT }, function()
    for _ = 1, 100 do f() end
    return "never refused"
  end):join())
end
often("tables", function() local t = {} for i = 1, 40000 do t[i] = "x" end end)
often("hashes", function() local t = {} for i = 1, 10000 do t[i * 7.5] = i end end)
often("repeated", function() local s = ("x"):rep(1000000) end)
often("concatenated", function()
  local s, t = ("x"):rep(1000), {}
  for i = 1, 1000 do t[i] = s end
  return #table.concat(t)
end)
often("replaced", function() return #("x"):rep(1000):gsub("x", ("y"):rep(1000)) end)
often("packed", function() return #table.pack(table.unpack({}, 1, 60000)) end)
often("formatted", function() return #("%s%s"):format(("x"):rep(400000), ("x"):rep(400000)) end)
