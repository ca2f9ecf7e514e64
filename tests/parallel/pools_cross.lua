-- Pools on their way: a domain that has never met one makes its methods, some of which are written in Lua,
-- where it receives it.
local pl = require "perilune"

local c = pl.channel.new(4)
local p = pl.pool.new { workers = 1 }

local function methods(q)
  local names = { type(q) }
  for _, name in ipairs { "async", "parallel_for", "parallel_reduce", "parallel_scan", "map", "sort" } do
    names[#names + 1] = name .. " " .. type(q[name])
  end
  return table.concat(names, ", ")
end

-- By a channel, to a task of the pool itself, and to a domain.
c:send(p)
print("task", p:async(function() return methods(c:recv()) end):await())
c:send(p, 7)
print("domain", pl.domain.spawn(function()
  local q, n = c:recv()
  return methods(q), n
end):join())

-- In a function, by a select, as the result of a task, and as the value of a loop over a channel.
print("captured", pl.domain.spawn(function() return methods(p) end):join())
c:send(p)
print("select", pl.domain.spawn(function()
  local _, q = pl.select { c, pl.channel.new(1) }
  return type(q) == "number" and "?" or methods(q)
end):join())
print("result", pl.domain.spawn(function()
  return methods(p:async(function() return p end):await())
end):join())
c:send(p)
c:close()
print("loop", pl.domain.spawn(function()
  for q in c do return methods(q) end
end):join())

-- A coroutine receives it: natives there run without a stack of their own until they call Lua.
local d = pl.channel.new(1)
d:send(p)
print("coroutine", pl.domain.spawn(function()
  return select(2, coroutine.resume(coroutine.create(function() return methods(d:recv()) end)))
end):join())
p:close()
