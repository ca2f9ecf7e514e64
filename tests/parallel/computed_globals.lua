-- Globals by names that are computed: code that reads `_G` other than for constant names has all of the program's globals with it.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local function A(f, ...) return pool:async(f, ...):await() end
local function first(ok, text) return ok, (tostring(text):match "^[^\n]*") end
local function call(name) return _G[name](21) end

function helper(x) return x * factor end
factor = 2
print("constant", A(function() return _G.helper(21) end))
handlers = { add = function(a) return a + factor end }
print("task", A(call, "helper"))
print("loop", pool:map({ "helper" }, call)[1])
print("domain", pl.domain.spawn(call, "helper"):join())
local c = pl.channel.new()
c:send(call)
print("message", A(function(c) return c:recv() "helper" end, c))
function indirect(name) return _G[name](21) end
print("through a global", A(function() return indirect "helper" end))
print("a table", A(function(name) return _G[name].add(1) end, "handlers"))
print("onward", A(function(name)
  local pl = require "perilune"
  return pl.pool.default():async(function(n) return _G[n](21) end, name):await()
end, "helper"))

-- as they are at the crossing, whatever has crossed before
factor = 3
print("assigned", A(call, "helper"))
print("absent", first(pcall(A, call, "later")))
function later(x) return x + 1 end
print("added", A(call, "later"))
later = nil
print("removed", first(pcall(A, call, "later")))
local names = A(function()
  local names = {}
  for name in pairs(_G) do names[#names + 1] = name end
  return names
end)
local found = 0
for _, name in ipairs(names) do
  if name == "helper" or name == "factor" or name == "print" then found = found + 1 end
end
print("pairs", found)
-- globals of the library are the domain's own, also under a name that the program makes
print("library", A(function(name) return _G["pri" .. "nt"] == print, _G[name] == string end, "string"))

-- they are frozen, and may not be assigned, as those that are named
print("frozen", first(pcall(A, function(name) _G[name].add = 1 end, "handlers")))
print("assigning", first(pcall(A, function(name) _G[name] = 1 end, "factor")))
local count = 0
function counter()
  count = count + 1
  return count
end
print("a variable", first(pcall(A, call, "counter")))
counter = nil

-- what cannot cross: a coroutine is not found; what holds something that would be refused leaves only what is named
running = coroutine.create(print)
print("coroutine", A(function(name) return _G[name], _G.helper(1) end, "running"))
running = nil
guarded = { setmetatable({}, { __gc = function() end }) }
print("refused", A(function(name) return _G[name], _G.helper(1) end, "handlers"))
print("named", first(pcall(A, function(name) return _G[name], guarded end, "helper")))
guarded = nil
print("gone", A(call, "helper"))
