-- A module that defines globals when it is loaded, and later.
loads = (loads or 0) + 1
local M = {}
function M.loads() return loads end
function M.count() counted = (counted or 0) + 1 return counted end
function M.set(name, v) _G[name] = v return rawget(_G, name) end
function M.get(name) return _G[name] end
return M
