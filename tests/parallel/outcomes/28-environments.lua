-- _ENV as a variable of the program.
local pl, try = require "perilune", require "lib.try"
do
  local _ENV = { tostring = tostring }
  local f = function() return tostring(1) end
  try(function() return pl.domain.spawn(f):join() end)
  try(pl.domain.spawn, function() x = 1 end)
end
try(function() return pl.domain.spawn(load("return x", "=chunk", "t", { x = 1 })):join() end)
do
  local _ENV <const> = pl.share { y = 2 }
  local g = function() return y end
  try(function() return pl.domain.spawn(g):join() end)
end
local env = _ENV
try(function() return pl.domain.spawn(function() return env == _G end):join() end)
try(function() return pl.domain.spawn(function() local _ENV = { z = 3 } return z end):join() end)
local swapped = load("local function f() return print end _ENV = setmetatable({}, { __index = _G }) return f", "=chunk")()
try(pl.domain.spawn, swapped)
