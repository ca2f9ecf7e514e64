-- Random graphs in captured variables and globals: what a crossing brings is what is there at that moment, after any writes; what comes
-- back is the original; and no write over there works, whatever it is and wherever.
-- stress: no
local pl = require "perilune"

-- Writes a graph down so that two are equal if their texts are.
local function canon(root)
  local numbers, queue, out = {}, {}, {}
  local function text(v)
    if type(v) ~= "table" then return type(v) .. " " .. tostring(v) end
    if not numbers[v] then
      queue[#queue + 1] = v
      numbers[v] = #queue
    end
    return "#" .. numbers[v]
  end
  text(root)
  local at = 1
  while queue[at] do
    local t = queue[at]
    at = at + 1
    local keys = {}
    for k in next, t do keys[#keys + 1] = k end
    local function name(k) return type(k) == "table" and "table " .. rawget(k, "name") or type(k) .. tostring(k) end
    table.sort(keys, function(a, b) return name(a) < name(b) end)
    for _, k in ipairs(keys) do out[#out + 1] = text(k) .. "=" .. text(rawget(t, k)) end
    local mt = debug.getmetatable(t)
    if mt then out[#out + 1] = "meta " .. text(mt) end
  end
  return table.concat(out, "\n"), queue
end

local random = math.random
local scalars = { 0, -1, 0.5, 2 ^ 53, true, false, "", "a", ("long"):rep(40), ("x"):rep(64), ("x"):rep(65) }
local function scalar() return scalars[random(#scalars)] end

local function graph()
  local tables = {}
  for i = 1, random(1, 25) do tables[i] = { name = "t" .. i } end
  return tables
end

local function value(tables) return random(3) == 1 and scalar() or tables[random(#tables)] end

local fields = { "x", "y", "z", "__index", "__newindex", "label", "__len", "__eq" }
-- One random write somewhere; with `raw` it goes past metamethods.
local function write(tables, t)
  local n = random(13)
  if n == 1 then rawset(t, rawlen(t) + 1, random(100))
  elseif n == 2 then rawset(t, random(20), random(100))
  elseif n == 3 then rawset(t, random(20), random())
  elseif n == 4 then rawset(t, random(20), nil)
  elseif n == 5 then rawset(t, fields[random(#fields)], value(tables))
  elseif n == 6 then rawset(t, "k" .. random(100), value(tables))
  elseif n == 7 then rawset(t, "k" .. random(100), nil)
  elseif n == 8 then rawset(t, tables[random(#tables)], value(tables))
  elseif n == 9 then rawset(t, random(1000) * 1.5, scalar())
  elseif n == 10 then debug.setmetatable(t, random(2) == 1 and tables[random(#tables)] or nil)
  elseif n == 11 then for i = 1, 9 do rawset(t, i, i) end
  elseif n == 12 then for i = 1, 40 do rawset(t, "k" .. i, i) end
  else rawset(t, "x", random(100)) end
end

for seed = 1, 15 do
  math.randomseed(seed)
  local pool = pl.pool.new { workers = ({ 1, 2, 4 })[seed % 3 + 1] }
  local tables = graph()
  local root = tables[1]
  rawset(root, "all", tables)
  rawset(tables, "name", "all")
  shown = root
  for round = 1, 6 do
    for _ = 1, random(0, 30) do write(tables, tables[random(#tables)]) end
    local here = canon(root)
    local also = tables[random(#tables)]
    -- As a capture, as a global, as an argument that the capture leads to.
    local a, b, same = pool:async(function(t)
      local a, queue = canon(root)
      local same = t == nil
      for _, q in ipairs(queue) do same = same or rawequal(q, t) end
      return a, canon(root), same
    end, also):await()
    assert(a == here and b == here and same, seed)
    assert(pool:async(function() return (canon(shown)) end):await() == here, seed)
    -- Once more, and by another way to it: what has been kept from last time, or from a moment ago, is what is there.
    assert(pool:async(function() return (canon(root)) end):await() == here, seed)
    local inside = tables[random(#tables)]
    local theirs = pool:async(function() return (canon(inside)) end):await()
    assert(theirs == (canon(inside)), seed)
    local holder = { inside, also }
    theirs = pool:async(function() return (canon(holder[1])) .. (canon(holder[2])) end):await()
    assert(theirs == (canon(inside)) .. (canon(also)), seed)
    -- Nothing can be written to.
    local after, worked = pool:async(function(seed)
      math.randomseed(seed)
      local _, queue = canon(root)
      local worked = 0
      for _ = 1, 60 do
        local t = queue[random(#queue)]
        local before = canon(t)
        local ok = pcall(write, queue, t)
        if canon(t) ~= before then worked = worked + 1 end
      end
      collectgarbage()
      return canon(root), worked
    end, seed):await()
    assert(after == here and worked == 0, seed)
    assert(canon(root) == here, seed)
    -- An argument is a copy to write to.
    local copy = pool:async(function(t)
      rawset(t, "fresh", 1)
      return t
    end, { also }):await()
    assert(not rawequal(copy, tables) and rawget(copy, "fresh") == 1, seed)
    -- What comes back is the original.
    local n = random(#tables)
    local back = pool:async(function(n) return rawget(rawget(root, "all"), n) end, n):await()
    assert(rawequal(back, tables[n]), seed)
    local list = pool:async(function() return { root, { rawget(root, "all") } } end):await()
    assert(rawequal(list[1], root) and rawequal(list[2][1], tables), seed)
  end
  pool:close()
end
print "ok"
