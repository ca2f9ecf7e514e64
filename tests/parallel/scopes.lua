-- Scopes: nothing outlives them, the first error cancels the others, daemons go with the rest.
local pl = require "perilune"

local function closable(name)
  return setmetatable({}, { __close = function(_, e)
    pl.sleep(0.001)
    print("closed", name, e)
  end })
end
local function first_line(s) return (tostring(s):match "[^\n]*") end

-- results, of the body and of fibers; the very same tables
print(pl.scope(function(s) return 1, nil, 3, nil end))
local t = {}
print(pl.scope(function(s, ...)
  local f = s:spawn(function(...) return t, ... end, ...)
  local g = pl.fiber(function() return "g" end)
  local a, b = f:await()
  return a == t, b, g:await(), g:status(), select("#", f:await())
end, "b"))

-- whatever can be called waits for all of them
local order = {}
pl.scope(function(s)
  for i = 3, 1, -1 do s:spawn(function() pl.sleep(i * 0.02) order[#order + 1] = i end) end
  order[1] = "body"
end)
print(table.concat(order, " "))

-- the first error cancels the others and is raised, with both tracebacks
print(select(2, pcall(pl.scope, function(s)
  s:spawn(function()
    local c <close> = closable "sibling"
    local ok = pcall(pl.sleep, 100)
    print("never", ok)
  end)
  s:spawn(function() pl.sleep(0.01) error "boom" end):name "culprit"
  local c <close> = closable "body"
  pl.sleep(100)
end)))
-- an error that is no text stays what it is
local code = {}
print(select(2, pcall(pl.scope, function(s) s:spawn(error, code) pl.sleep(100) end)) == code)
print(select(2, pcall(pl.scope, function() error(code) end)) == code)
-- the body's error cancels too
print(first_line(select(2, pcall(pl.scope, function(s)
  s:spawn(function() local c <close> = closable "child" pl.sleep(100) end)
  pl.yield()
  error "body"
end))))
-- one that is cancelled is no failure
print(pl.scope(function(s)
  local f = s:spawn(pl.sleep, 100)
  print(f:status(), f:cancel "not needed", f:cancel())
  local ok, e = pcall(f.await, f)
  return ok, e:gsub("fiber %d+", "fiber N"), f:status()
end))

-- daemons
local beats = 0
print(pl.scope(function(s)
  local d = s:daemon(function()
    local c <close> = closable "daemon"
    while true do beats = beats + 1 pl.sleep(0.001) end
  end)
  s:spawn(pl.sleep, 0.01)
  return d:status()
end), beats > 1)
print(first_line(select(2, pcall(pl.scope, function(s)
  s:daemon(function() error "daemon" end)
  pl.sleep(100)
end))))

-- cancelling a scope: its body too, what is started afterwards too
print(pl.scope(function(s)
  s:spawn(function() local c <close> = closable "child" pl.sleep(100) end)
  pl.yield()
  print(s:cancel "enough", s:cancel "again")
  s:spawn(function() print "never" end)
  pl.sleep(100)
end))
print(pl.scope(function(s) s:cancel() return "what has returned has returned" end))
print(pl.scope(function(s)
  s:spawn(function() pl.sleep(0.005) s:cancel "by a child" end)
  while true do pl.yield() end
end))

-- nesting: an inner scope belongs to the outer one
print(first_line(select(2, pcall(pl.scope, function(outer)
  local begun = 0
  outer:spawn(function()
    pl.scope(function(inner)
      inner:spawn(function() local c <close> = closable "innermost" begun = begun + 1 pl.sleep(100) end)
      local c <close> = closable "inner body"
      begun = begun + 1 pl.sleep(100)
    end)
    print "never"
  end)
  while begun < 2 do pl.yield() end
  error "outer"
end))))
print(pl.scope(function(s)
  local ok, e = pcall(pl.scope, function(s) s:spawn(error, "inner", 0) pl.sleep(100) end)
  return ok, first_line(e), "goes on"
end))

-- a scope that has ended
local left
pl.scope(function(s) left = s end)
print(pcall(left.spawn, left, print), left:cancel())
print(pcall(left.spawn, print, left))
print(pcall(pl.scope))
print(pcall(pl.fiber, 5))
print(pcall(left.spawn, left, 5))

-- fibers in no scope
local f = pl.fiber(function(...) pl.yield() return ... end, 1, 2)
print(f:name "mine":name(), f, f:status(), f:await())
print(select("#", pl.fiber(function() end):await()))
local sleeper = pl.fiber(pl.sleep, 100)
print(sleeper:await(0.001))
print(sleeper:await { timeout = 0 })
print(sleeper:name "sleeper":cancel(), pcall(sleeper.await, sleeper))
print(select(2, pcall(function() local f f = pl.fiber(function() return f:await() end) return f:await() end)):gsub("\nin fiber.*", ""))

-- in tasks: a scope is as good there; a fiber without one would outlive the task
local pool = pl.pool.new { workers = 2 }
print(pool:async(function()
  local pl = require "perilune"
  return pl.scope(function(s)
    local a, b = s:spawn(function() pl.sleep(0.01) return 1 end), s:spawn(function() return 2 end)
    return a:await() + b:await()
  end)
end):await())
print(first_line(select(2, pcall(function()
  return pool:async(function() require "perilune".fiber(print) end):await()
end))))
local log = pl.channel.new()
local task = pool:async(function()
  local pl = require "perilune"
  pl.scope(function(s)
    s:spawn(function()
      local c <close> = setmetatable({}, { __close = function() pl.sleep(0.01) log:send "unwound" end })
      log:send "begun"
      pl.sleep(100)
    end)
  end)
end)
print(log:recv(), task:cancel(), log:recv(), (pcall(task.await, task)), task:status())

-- waits say what they wait for
local c = pl.channel.new(0, "nobody sends")
local _, message = pcall(pl.scope, function(s)
  s:spawn(function() c:recv() end):name "receiver"
end)
print(message:match "^scopes.lua:%d+: (deadlock: nothing can end this wait any more)")
print(message:match "the main program waits for the scope at scopes.lua:%d+ %(scopes.lua:%d+%)")
print(message:match "fiber 'receiver' of 'main' waits to receive from channel 'nobody sends' %(scopes.lua:%d+%)")

-- fibers do not cross
print(pcall(log.send, log, f))
print(pl.shield(function(...) return ... end, 1, 2))
