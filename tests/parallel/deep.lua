-- stress: no
-- Values nested as deep as there is memory for cross, are shared, compared and refused without recursion. (A test of the command runs this with
-- a small native stack.)
local pl = require "perilune"
local DEPTH <const> = 300000

local function depth_of(v, next)
  local n = 0
  while true do
    local inner = next(v)
    if not inner then return n end
    v, n = inner, n + 1
  end
end

local makers = {
  { "list", function(inner) return { inner } end, function(v) return v[1] end },
  { "key", function(inner) return { [inner] = true } end, function(v) return (next(v)) end },
  { "field", function(inner) return { inner = inner } end, function(v) return v.inner end },
  { "closure", function(inner) return function() return inner end end, function(v) return v() or nil end },
}
local c = pl.channel.new()
for _, maker in ipairs(makers) do
  local name, make, inner = table.unpack(maker)
  local v = name == "closure" and function() return false end or {}
  for _ = 1, DEPTH do v = make(v) end
  c:send(v)
  local copy = c:recv()
  assert(depth_of(copy, inner) == DEPTH)
  local shared = pl.share(copy)
  assert(depth_of(shared, inner) == DEPTH)
  c:send(shared)
  assert(c:recv() == shared)
  v, copy, shared = nil, nil, nil
  collectgarbage()
  print(name)
end

local bad = { coroutine.create(print) }
for _ = 1, DEPTH do bad = { bad } end
print(pcall(pl.share, bad))
print((select(2, pcall(c.send, c, bad)):gsub("%[1%]%[1%][%[%]1]*", "...")))
print(pcall(function()
  pl.domain.spawn(function(depth)
    local t = {}
    for _ = 1, depth do t = { t } end
    error(t)
  end, DEPTH):join()
end) == false)

-- Chains that only the collector sees.
local w = setmetatable({}, { __mode = "k" })
local k, co, finalised = {}, nil, 0
for _ = 1, 50000 do
  local below = co
  co = coroutine.create(function() return below end)
  local n = setmetatable({}, { __gc = function() finalised = finalised + 1 end })
  w[k], k = n, n
end
k, co = nil, nil
collectgarbage() collectgarbage()
print(finalised > 49000)
