-- A task that goes on finds modules where it found them when it was started, whatever others have brought meanwhile.
local pl = require "perilune"
local pool = pl.pool.new { workers = 1 }
local go, here = pl.channel.new(), pl.channel.new()
local home = package.path

package.path = "first/?.lua"
local first = pool:async(function()
  here:send(package.path)
  go:recv()
  return package.path, (select(2, pcall(require, "nowhere")):match "first/nowhere")
end)
print(here:recv())

package.path = "second/?.lua"
print(pool:async(function() return package.path end):await())
go:send(true)
print(first:await())

-- What a task changes itself stays while nobody else comes.
package.path = "third/?.lua"
local third = pool:async(function()
  package.path = "own/?.lua"
  here:send(package.path)
  go:recv()
  return package.path
end)
print(here:recv())
go:send(true)
print(third:await())
package.path = home
