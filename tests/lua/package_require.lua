-- require: loaders, messages, searchers.
local function clean(s) return (tostring(s):gsub("/tmp/lua_%w+", "NAME"):gsub("lua_%w%w%w%w%w%w", "BASE"):gsub("^[^:\n]+:%d+: ", "@ ")) end
local function msg(f, ...) local ok, e = pcall(f, ...) print(ok, clean(e)) end
package.path, package.cpath = "./no_such_dir/?.lua;./no_such_dir/?/init.lua", "./no_such_dir/?.so"
msg(require, "no.such-module") msg(require) msg(require, {})
package.preload.pre = function(...) print("loading", ...) return "value" end
print(require("pre")) print(require("pre")) print(package.loaded.pre)
package.preload.silent = function() end print(require("silent")) print(package.loaded.silent)
package.preload.sets = function(name) package.loaded[name] = "set by itself" end print(require "sets")
package.preload.fails = function() error("in loader", 0) end msg(require, "fails")
package.preload.falsy = function() return false end print(require "falsy") print(package.loaded.falsy, require "falsy")

local name = os.tmpname()
local dir, base = name:match("^(.*/)([^/]*)$")
package.path = dir .. "?"
local function write(s) local f = io.open(name, "w") f:write(s) f:close() end
write("return {name = ..., file = select(2, ...)}")
local m, where = require(base)
print(m.name == base, m.file == name, where == name, require(base) == m)
package.loaded[base] = nil write("syntax error here") msg(require, base)
package.loaded[base] = nil write("error('while running')") print(pcall(require, base) == false)
print(clean(package.searchpath(base, package.path)), package.searchpath("a.b", "?x;y?", ".", "_")) print(package.searchpath("a-b", "?", "-", "+")) print(package.searchpath("a.b", "?", ""))
os.remove(name)
table.insert(package.searchers, 2, function(n) if n == "virtual" then return function(...) return table.concat({...}, "+") end, "data" end return "\n\tmy searcher says no" end)
print(require "virtual") msg(require, "other")
package.searchers[2] = function() return nil end msg(require, "other2")
package.path = nil msg(require, "x") package.path = 5 msg(require, "y.z")
package.searchers = nil msg(require, "z")
print(package.loadlib("x", "*") == nil, #package.config, package.config:gsub("\n", "|"), package.loaded._G == _G, package.loaded.string == string)
