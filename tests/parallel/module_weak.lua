-- Tables inside modules that become weak after the module was loaded: what they lead to stays known, and what they hold is state.
local pl = require "perilune"
package.preload.conf = function() return assert(load("return { a = { x = { 1 }, y = 'k' }, b = { x = { 2 } }, c = setmetatable({ x = { 3 } }, { name = 'c' }), d = { x = { y = { 4 } } } }", "@conf.lua"))() end
local conf <const> = require "conf"
local pool = pl.pool.new { workers = 1 }
setmetatable(conf.a, { __mode = "kv" })
debug.setmetatable(conf.b, { __mode = "kv" })
getmetatable(conf.c).__mode = "kv"
collectgarbage() collectgarbage()
local junk = {} for i = 1, 1000 do junk[i] = { i } end
print((next(conf.a)), (next(conf.b)), (next(conf.c)))
print(pool:async(function() return conf.a.x and 1, conf.b.x and 1, conf.c.x and 1, conf.d.x.y[1] end):await())
conf.d.x = nil
collectgarbage() collectgarbage()
for i = 1, 1000 do junk[i] = { i } end
conf.d.z = 1
print(pool:async(function() return conf.d.x, conf.d.z end):await())
conf.a.k, conf.b.k, conf.c.k = 1, 2, 3
collectgarbage()
print(pool:async(function() return conf.a.k, conf.b.k, conf.c.k end):await())
