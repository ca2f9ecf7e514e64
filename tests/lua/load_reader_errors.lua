-- Errors of a reader function: `load` returns them, after a message handler outside has seen them.
local function pieces(list)
  local i = 0
  return function() i = i + 1; local p = list[i]; if type(p) == "function" then return p() end; return p end
end
local seen = {}
local function handler(m) seen[#seen + 1] = tostring(m); return "handled " .. tostring(m) end
local function try(list)
  local function reader() return type(list) == "function" and list or pieces(list) end
  seen = {}
  print("xpcall", xpcall(load, handler, reader())); print("  saw", table.concat(seen, "; "))
  print("pcall", pcall(load, reader()))
  print("plain", load(reader()))
end
try({ "return ", function() error("oops", 0) end })
try({ "return ", function() error("oops") end })
try({ "return ", function() local x = nil; return x.y end })
try(function() error() end)
try(function() error(setmetatable({}, { __tostring = function() return "an object" end })) end)
try({ "return 1", {} })
try({ function() return true end })
try(error)
try({ "return ", "+" })
-- a pcall inside the reader keeps its errors; a nested load passes its own on
try({ function() print("  inside", pcall(error, "private", 0)); return "syntax error here" end })
try(function() local f, m = load(function() error("deep", 0) end); error("outer of " .. tostring(m), 0) end)
-- the handler fails
print(xpcall(load, function() error("worse") end, function() error("bad", 0) end))
print(xpcall(load, function(m) local n = nil; return n.x end, function() error("bad", 0) end))
-- variables to be closed in the reader
print(xpcall(load, handler, function()
  local c <close> = setmetatable({}, { __close = function(_, e) print("closed with", e) end })
  error("closing", 0)
end))
-- in a coroutine, where the xpcall is outside
local co = coroutine.wrap(function() return load(function() error("in a coroutine", 0) end) end)
seen = {}
print(xpcall(co, handler)); print("  saw", table.concat(seen, "; "))
-- errors afterwards are handled as ever
print(xpcall(function() load(function() error("first", 0) end); error("second", 0) end, handler))
print(select("#", load(function() return nil end)), load(pieces { "return 1 + ", "1" })())
