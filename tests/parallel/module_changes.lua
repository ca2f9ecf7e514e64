-- What a program writes into modules, and into tables inside them, is what its tasks see; what the module's own code keeps there is each domain's own.
local pl = require "perilune"

local CONF <const> = [[
local M = { opts = { n = 1, list = { 1, 2, 3 }, gone = 1 }, deep = { a = { b = { c = 1 } } }, records = { { v = 1 }, { v = 2 } }, cache = {}, Point = {} }
M.Point.__index = M.Point
function M.Point.new(x) return setmetatable({ x = x }, M.Point) end
function M.hits(k)
  M.cache[k] = M.cache[k] or { n = 0 }
  M.cache[k].n = M.cache[k].n + 1
  return M.cache[k].n
end
return M
]]
package.preload["conf"] = function() return assert(load(CONF, "@conf.lua"))() end
package.preload["conf.more"] = function()
  return assert(load("local conf = require 'conf' return { set = function(k, v) conf.cache[k] = v end }", "@conf/more.lua"))()
end
local conf <const> = require "conf"
local more <const> = require "conf.more"

-- Before anything has crossed.
conf.early, conf.opts.early = { 1, 2 }, { 3 }

for _, workers in ipairs { 1, 3 } do
  local pool <const> = pl.pool.new { workers = workers }
  local function A(f, ...) return pool:async(f, ...):await() end
  print("workers", workers)

  print("early", A(function() return conf.early[2], conf.opts.early[1] end))

  -- Scalars, elements, what is gone, what is deep; by constant and by computed names.
  conf.opts.n = 5
  print("a field", A(function() return conf.opts.n end), A(function(k) return conf[k].n end, "opts"))
  conf.opts.list[4] = 4
  conf.opts.gone = nil
  conf.deep.a.b.c = 7
  conf.records[2].v = 9
  conf.opts[1.5], conf.opts[true] = 1, 2
  print("deep", A(function() return #conf.opts.list, conf.opts.gone, conf.deep.a.b.c, conf.records[2].v, conf.opts[1.5], conf.opts[true] end))
  table.insert(conf.opts.list, 1, 0)
  print("inserted", A(function() return table.concat(conf.opts.list, " ") end))
  table.remove(conf.opts.list, 1)
  print("removed", A(function() return table.concat(conf.opts.list, " ") end))
  for i = 1, 3 do
    conf.opts.n = 100 + i
    print("again", A(function() return conf.opts.n end))
  end

  -- What it was at first.
  conf.opts.n = 1
  conf.opts.gone = 1
  conf.opts[1.5], conf.opts[true] = nil, nil
  print("as at first", A(function() return conf.opts.n, conf.opts.gone, conf.opts[1.5], conf.opts[true] end))
  conf.field = 1
  print("a field of its own", A(function() return conf.field end))
  conf.field = nil
  print("and gone", A(function() return conf.field end))

  -- Many that come and go.
  local function ks() return conf.opts.k1, conf.opts.k300, conf.k1, conf.k300 end
  for _ = 1, 2 do
    for i = 1, 300 do conf.opts["k" .. i], conf["k" .. i] = i, -i end
    print("many", A(ks))
    for i = 1, 300 do conf.opts["k" .. i], conf["k" .. i] = nil, nil end
    print("gone", A(ks))
  end

  -- A class stays the class that it is, on both sides.
  function conf.Point:twice() return self.x * 2 end
  print("a method", A(function() return conf.Point.new(4):twice() end), A(function(p) return p:twice() end, conf.Point.new(5)))
  print("at home", getmetatable(A(function() return conf.Point.new(1) end)) == conf.Point)

  -- Metatables.
  setmetatable(conf.deep, { __index = function(_, k) return k .. "!" end })
  print("a metatable", A(function() return conf.deep.none end))
  setmetatable(conf.deep, nil)
  print("none", A(function() return conf.deep.none end))

  -- Values are frozen, the table itself is not.
  conf.opts.t = { 1, 2 }
  conf.opts.f = function() return conf.opts.t[2] end
  print("values", A(function() return conf.opts.f() end))
  local _, e = pcall(A, function() rawset(conf.opts.t, 1, 5) end)
  print((tostring(e):gsub("\n.*", ""):gsub("^.-: ", "")))
  conf.opts.n = 6
  print("there", A(function() conf.opts.n = 99 return conf.opts.n end), conf.opts.n, A(function() return conf.opts.n end))

  -- What comes home undoes nothing.
  local go <const> = pl.channel.new()
  conf.opts.n, conf.top = 7, 1
  local t = pool:async(function() go:recv() return conf, conf.opts.n, conf.top end)
  conf.opts.n, conf.top = 8, 2
  go:send(1)
  print("home", select(2, t:await()))
  print("stays", conf.opts.n, conf.top)
  t = pool:async(function() go:recv() return conf, conf.top end)
  conf.top = nil
  go:send(1)
  print("nor what is as at first", select(2, t:await()), conf.top)
  conf.top = 2
  print("onward", A(function() return pool:async(function() return conf.opts.n, conf.top end):await() end))

  -- Globals, loops, domains, refusals.
  shared = conf
  print("global", A(function() return shared.opts.n end))
  print("loop", table.unpack(pool:map({ 1, 2 }, function(i) return conf.opts.n + i end)))
  print("domain", pl.domain.spawn(function() local n = conf.opts.n conf.opts.n = 50 return n, conf.opts.n end):join())
  conf.opts.co = coroutine.create(print)
  _, e = pcall(A, function() return conf.opts.n end)
  print((tostring(e):gsub("^.-: ", "")))
  conf.opts.co = nil
  print("without", A(function() return conf.opts.n, conf.opts.co end))

  -- The module's own state.
  local before <const> = conf.hits "a"
  more.set("b", { n = 5 })
  print("own", A(function() return pl.domain.spawn(function() return conf.hits "a", conf.hits "a", conf.cache.b end):join() end))
  print("ours", conf.hits "a" - before)
  collectgarbage()
  print("collected", A(function() return conf.opts.n, conf.deep.a.b.c end))
  pool:close()
end
