-- What a program adds to a table of the standard library goes along, however much that is.
local pl = require "perilune"
local pool <close> = pl.pool.new { workers = 1 }
local function there(f) return pool:async(f):await() end

for i = 1, 6000 do math["added" .. i] = i end
print(there(function() return math.added1, math.added6000, math.floor(2.5) end))
math.added6000, math.added1 = "changed", nil
local floor = math.floor
math.floor = function() return "mine" end
print(there(function() return math.added6000, math.added1, math.floor(2.5) end))
math.floor = floor
print(there(function()
  local n = 0
  for name in pairs(math) do
    if name:find "^added" then n = n + 1 end
  end
  return n, math.floor(2.5)
end))
