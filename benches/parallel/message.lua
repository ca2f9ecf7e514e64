-- A deep table from one end to the other: sent by value through a channel, or packed and unpacked by a serialiser that this
-- Lua has (string.buffer, or cjson if it says so after the size). The same program runs on all of them.
-- bench: group=parallel size=200 quick=10
local n = tonumber(arg and arg[1]) or 200

-- About 5,000 tables and 30,000 fields: a tree of records with lists, strings, whole and broken numbers.
local function tree(depth)
  local node = { name = "node" .. depth, value = depth * 1.5, flag = true, list = { 1, 2, 3, 4 } }
  if depth > 0 then
    node.children = { tree(depth - 1), tree(depth - 1) }
  end
  return node
end

local message = tree(10)

local function count(node)
  local c = 1
  for _, child in ipairs(node.children or {}) do c = c + count(child) end
  return c
end

local how, round
local perilune, pl = pcall(require, "perilune")
if perilune then
  local channel = pl.channel.new()
  how = "channel"
  round = function(v)
    channel:send(v)
    return (channel:recv())
  end
else
  local _, buffer = pcall(require, "string.buffer")
  local _, cjson = pcall(require, "cjson")
  if arg[2] ~= "cjson" and type(buffer) == "table" then
    how = "string.buffer"
    round = function(v) return buffer.decode(buffer.encode(v)) end
  elseif type(cjson) == "table" then
    how = "cjson"
    round = function(v) return cjson.decode(cjson.encode(v)) end
  else
    io.stderr:write "message.lua: there is no serialiser\n"
    os.exit(1)
  end
end

assert(count(round(message)) == count(message))
local least = math.huge
for _ = 1, 5 do
  local started = os.clock()
  for _ = 1, n / 5 do round(message) end
  least = math.min(least, os.clock() - started)
end
print(string.format("deep table by value, %s %s: %.3f ms", perilune and "perilune" or jit and "luajit" or _VERSION, how, least / (n / 5) * 1e3))
