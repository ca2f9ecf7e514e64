-- Error values that cannot cross arrive as text with their traceback.
local pl = require "perilune"
local function outcome(f)
  local ok, e = pcall(function() return pl.domain.spawn(f):join() end)
  print(ok, type(e), (tostring(e):gsub("0x%x+", "0x"):match "^[^\n]*"))
end
outcome(function() error(coroutine.create(print)) end)
outcome(function() error({ co = coroutine.create(print) }) end)
outcome(function() error(setmetatable({}, { __tostring = function() return "custom text" end })) end)
local function stuck(meta) return setmetatable({ co = coroutine.create(print) }, meta) end
outcome(function() error(stuck { __tostring = function() return "text of one that stays" end }) end)
outcome(function() error(stuck { __tostring = function() error("again") end }) end)
outcome(function() local t = {} error(function() return t end) end)
outcome(function() error(stuck { __tostring = function() return 1 end }) end)
outcome(function() error(false) end)
