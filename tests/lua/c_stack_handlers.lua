-- At "C stack overflow" message handlers have room to run, and an end of their own.
local function short(m) return (tostring(m):gsub("\n.*", "")) end
local function f() return ("x"):gsub(".", f) end
print(pcall(f))
print(xpcall(f, function(m) return "handled: " .. short(m) end))
print(xpcall(f, function(m) return "tb: " .. #debug.traceback(m):match("stack traceback:") .. short(m) end))
print(xpcall(f, debug.traceback) == false)
print(xpcall(f, function(m) return (("abc"):gsub(".", function(c) return c:upper() end)) end))
print(xpcall(f, function(m) return pcall(error, "z") and 1 or "pcall works" end))
-- a handler that nests too: at its own limit it is over
local depth = 0
print(xpcall(f, function(m) depth = depth + 1 local function g() return ("x"):gsub(".", g) end return g() end))
print(depth < 60)
-- levels that a handler has
local function levels(n) if n == 0 then return 0 end local ok, m = pcall(string.gsub, "x", ".", function() levels(n - 1) end) return ok end
print(xpcall(f, function() local n = 0 local function g() n = n + 1 if n < 8 then ("x"):gsub(".", g) end end g() return n end))
-- errors in handlers
print(xpcall(error, function(m) error("again", 0) end, "x"))
local n = 0
print(xpcall(error, function(m) n = n + 1 if n < 5 then error("again", 0) end return "in the end " .. n end, "x"))
-- in a coroutine
print(coroutine.wrap(function() return xpcall(f, function(m) return "co: " .. short(m) end) end)())
print(coroutine.wrap(function() return xpcall(f, function(m) return coroutine.wrap(function() return "inner" end)() end) end)())
-- afterwards all is as before
print(pcall(f))
print(select("#", xpcall(f, print)) )
-- coroutines that resume each other
local function co() return coroutine.wrap(co)() end
print(xpcall(co, function(m) return "resumes: " .. short(m):sub(-16) end))
-- pcall nested
local function p() return pcall(p) end
print(select("#", p()) > 100)
local function x() return xpcall(x, function(m) return "deep " .. short(m) end) end
local r = table.pack(x()) print(r[r.n])
-- metamethods and sort, require
package.preload.a = function() require "b" end
package.preload.b = function() require "a" end
package.loaded.a = nil
print(xpcall(require, function(m) return "require: " .. short(m):sub(-30) end, "a"))
print(xpcall(function() require "a" end, debug.traceback) == false)
-- a protected call in the handler, and one that overflows again
print(xpcall(f, function() return select(2, pcall(f)) end))
print(xpcall(error, function() return select(2, pcall(f)) end))
print(xpcall(error, function() return (xpcall(f, function(m) return m end)) end))
