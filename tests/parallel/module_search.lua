-- What modules are found by crosses as it is at each call, whichever way it has been changed since the last one.
local pl = require "perilune"
local pool <const> = pl.pool.new { workers = 1 }

local function path() return package.path end
local function loads(name) return pcall(require, name) end
local function asked(f, ...) return pool:async(f, ...):await() end

local first <const> = package.path
print("the same", asked(path) == first, asked(path) == first)
package.path = "one/?.lua"
print("assigned", asked(path))
rawset(package, "path", "two/?.lua")
print("set", asked(path))
local field <const> = "path"
package[field] = "three/?.lua"
print("by a computed name", asked(path))
for i = 1, 100 do package.path = i .. "/?.lua" end
print("in a loop", asked(path))

print("not there", (asked(loads, "made")))
package.preload.made = function() return "first" end
print("there", asked(loads, "made"))
local others <const> = { "made.too", "made.three" }
for n, name in ipairs(others) do package.preload[name] = function() return n end end
print("and others", asked(loads, "made.too"), asked(loads, "made.three"))
package.preload["made.four"] = load "return 'four'"
print("four", asked(loads, "made.four"))
package.preload["made.four"] = nil
print("gone, and loaded", asked(loads, "made.four"))

table.insert(package.searchers, 2, function(name)
  return name == "found" and function() return "by a searcher" end or "\n\tnot here"
end)
print("a searcher", asked(loads, "found"))
table.remove(package.searchers, 2)
print("none", (asked(loads, "found.too")))
package.searchers = { package.searchers[1], function(name) return function() return name .. " by another" end end }
print("another list", asked(loads, "anything"))

-- Captured tables are watched too, and these are such tables then.
package.path = "four/?.lua"
local function captured() return package.path, path() end
local p <const> = package
local function both() return p.path, package.path end
print("captured", asked(both))
package.path = "five/?.lua"
print("and assigned", asked(both))
package.path = "six/?.lua"
print("and again", asked(captured))

-- A task changes its own, and the next one has the sender's.
local function change() package.path = "theirs/?.lua" return package.path end
print("in a task", asked(change))
print("afterwards", asked(path))
pool:close()
