-- Whose code stores into a table of a module tells whether it is configuration or state; a task finds what its caller has, whatever tasks before it have stored or been given.
local pl = require "perilune"

local function modules(texts)
  for name, text in pairs(texts) do
    package.preload[name] = function() return assert(load(text, "@" .. name:gsub("%.", "/") .. ".lua"))(name) end
  end
end
modules {
  ["app.config"] = "return { opts = { n = 1, name = 'a' }, list = {} }",
  ["app.main"] = "local config = require 'app.config' return { level = function(n) config.opts.n = n end }",
  ["lib"] = "local L = { state = {}, memo = setmetatable({}, { __mode = 'v' }), inner = { { v = 1 } } } L.me, L.inner.up = L, L return L",
  ["lib.part"] = "local lib = require 'lib' return { note = function(k, v) lib.state[k] = v end }",
}
-- A module that is a function in this file: its text is these lines.
package.preload["here"] = function()
  local M = { opts = { n = 1 }, state = { n = 0 } }
  local function bump() M.state.n = M.state.n + 1 end
  function M.bump() bump() return M.state.n end
  return M
end
local config <const>, main <const>, lib <const>, part <const>, here <const> =
  require "app.config", require "app.main", require "lib", require "lib.part", require "here"
local pool <const> = pl.pool.new { workers = 1 }
local function A(f, ...) return pool:async(f, ...):await() end

-- A sibling's store is a program's, one of a module below is the module's own.
main.level(3)
print("sibling", A(function() return config.opts.n end))
part.note("k", 1)
print("below", A(function() return lib.state.k end))

-- A module whose loader is a function of the program.
local function configure(n) here.opts.n = n end
configure(4)
print("here", A(function() return here.opts.n end), here.bump(), here.bump())
print("its own", A(function() return here.state.n, here.bump() end))
print("set by a task", A(function()
  configure(9)
  local nested = pl.pool.new { workers = 1 }
  local n = nested:async(function() return here.opts.n end):await()
  nested:close()
  return here.opts.n, n
end))
print("not here", here.opts.n, A(function() return here.opts.n end))

-- What a task has stored is gone for the next one, however the function comes there: with globals, once more, in a picture, after collections.
CONFIG = config
local function both(n)
  local before = CONFIG.opts.n
  if n then CONFIG.opts.n = n end
  return before
end
for i = 1, 3 do
  print("globals", A(both, 50 + i), A(both), A(both))
  if i == 2 then collectgarbage() end
end
local function again()
  local before = CONFIG.opts.n
  CONFIG.opts.n = before + 100
  return before
end
print("again", A(again), A(again), A(again), A(again))
local big <const> = { config = config }
for i = 1, 2000 do big[i] = { i } end
local function in_picture(k) local o = big[k].opts local n = o.n o.n = 77 return n + #big end
print("picture", A(in_picture, "config"), A(in_picture, "config"), A(in_picture, "config"))
config.opts.n = 5
print("picture", A(in_picture, "config"), A(in_picture, "config"))
pool:parallel_for(1, 3, function() assert(config.opts.n == 5) end)
print("still", config.opts.n)

-- Two callers with one pool: each finds its own.
config.opts.extra, config.own = "main's", "main's"
local ask <const>, answer <const> = pl.channel.new(), pl.channel.new()
local other = pl.domain.spawn(function(pool, ask, answer)
  local config <const> = require "app.config"
  config.opts.extra, config.own, config.opts.n = nil, nil, 1
  while ask:recv() do
    answer:send(pool:async(function() return config.opts.n .. " " .. tostring(config.opts.extra) .. " " .. tostring(config.own) end):await())
  end
end, pool, ask, answer)
for _ = 1, 3 do
  ask:send(true)
  print("theirs", answer:recv())
  print("ours", A(function() return config.opts.n, config.opts.extra, config.own end))
end
ask:send(false)
other:join()

-- Keys that come and go are gone in all workers.
local three <const> = pl.pool.new { workers = 3 }
local function count()
  local n = 0
  for _ in pairs(config.list) do n = n + 1 end
  return n
end
for round = 1, 3 do
  for i = 1, 600 do config.list["k" .. round .. "_" .. i] = i end
  local most = 0
  for _ = 1, 6 do most = math.max(most, three:async(count):await()) end
  for k in pairs(config.list) do config.list[k] = nil end
  local left = 0
  for _ = 1, 12 do left = left + three:async(count):await() end
  print("come and gone", most, left)
end
three:close()

-- Weak tables are state; a module that leads to itself; what is deeper; objects as keys.
lib.memo.x = {}
lib.inner[1].v = 2
lib.inner.up.later = { 3 }
print("weak", A(function() return next(lib.memo), lib.inner[1].v, lib.me.later[1], lib.inner.up == lib end))
local key <const> = { "key" }
lib.inner[key] = "by an object"
local function by_object()
  local n, text = 0, nil
  for k, v in pairs(lib.inner) do if type(k) == "table" then n, text = n + 1, v .. " " .. k[1] end end
  return n, text
end
for _ = 1, 3 do print("objects", A(by_object)) end
lib.inner[key] = nil
print("objects", A(by_object))

-- What replaces a table, and what is put back.
local opts <const> = config.opts
config.opts = { n = 11 }
print("replaced", A(function() return config.opts.n, config.opts.name end))
opts.n = 12
config.opts = opts
print("put back", A(function() return config.opts.n, config.opts.name end))
opts.n = 13
print("written", A(function() return config.opts.n end))

-- A function that is put back, and one that the module's own code keeps in its state.
modules { funs = "local F = { kept = { one = { 1 } } } function F.f() return 'f' end function F.add(k, v) F.kept[k] = v end return F" }
local funs <const> = require "funs"
local state <const> = { 2 }
funs.add("two", state)
print("own state", A(function() return funs.f(), state[1], funs.kept.one[1], funs.kept.two end))
local f <const> = funs.f
funs.f = function() return "g" end
print("another", A(function() return f(), funs.f() end))
funs.f = f
print("put back", A(function() return f(), funs.f(), f == funs.f end))

-- A result brings what a task has set in a table that nobody has written here, and takes back nothing else.
modules { fresh = "return { opts = { n = 1 }, deep = { er = { n = 1 } } }" }
local fresh <const> = require "fresh"
print("brought", A(function() fresh.opts.n = 2 fresh.top = 3 return fresh end) == fresh, fresh.opts.n, fresh.top)

-- Modules that nothing leads to any more, of the library, too, are still themselves.
package.loaded.fresh, package.loaded.table, table = nil, nil, nil
for _ = 1, 2 do collectgarbage() end
print("gone", A(function() return fresh.opts.n, fresh.deep.er.n end))
fresh.deep.er.n = 4
print("gone", A(function() return fresh.deep.er.n end))

-- In an arena: the tables of a module outlive it.
modules { ["in.arena"] = "local M = { opts = {} } for i = 1, 50 do M.opts[i] = { n = i } end return M" }
pl.arena(function() require "in.arena" end)
collectgarbage()
local arena <const> = require "in.arena"
arena.opts[7].n = 70
print("arena", A(function() return arena.opts[7].n, arena.opts[8].n, #arena.opts end))
pool:close()
