-- Functions that capture each other and themselves; a forward declaration that is still empty.
local pl, try = require "perilune", require "lib.try"
local a, b, c
a = function(n) return n == 0 and "a" or b(n - 1) end
b = function(n) return n == 0 and "b" or c(n - 1) end
c = function(n) return n == 0 and "c" or a(n - 1) end
print(pl.domain.spawn(function() return a(0), a(1), a(2), a(3) end):join())
local function self(n) return n == 0 and self or self(n - 1) end
print(pl.domain.spawn(function() return self(3) == self end):join())
local later
local function uses() return later() end
try(pl.domain.spawn, uses)
later = function() return "now" end
try(function() return pl.domain.spawn(uses):join() end)
for i = 1, 2 do
  local x
  if i == 2 then x = i end
  try(function() return pl.domain.spawn(function() return x end):join() end)
end
do
  local y
  ::again::
  y = (y or 0) + 1
  if y < 3 then goto again end
  try(pl.domain.spawn, function() return y end)
end
