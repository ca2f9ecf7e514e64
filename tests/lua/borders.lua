-- The length of tables with holes: which of several borders it is.
-- stress: no
-- Each line stands for many tables; the numbers are the lengths, in the order of the patterns.

local function bit(n, i) return n >> (i - 1) & 1 == 1 end

local function matrix(name, make, first, last)
  local lengths = {}
  for n = first or 0, last or 255 do lengths[#lengths + 1] = tostring(make(n)) end
  print(name, table.concat(lengths, " "))
end

local function stored(n, from, to, step)
  local t = {}
  for i = from or 1, to or 8, step or 1 do
    if bit(n, i) then t[i] = i end
  end
  return t
end

local function full8(way)
  local t = {}
  if way == "constructor" then t = {1, 2, 3, 4, 5, 6, 7, 8}
  elseif way == "append" then for i = 1, 8 do t[#t + 1] = i end
  elseif way == "insert" then for i = 1, 8 do table.insert(t, i) end
  elseif way == "strings" then for i = 1, 8 do t[i] = tostring(i) end
  else for i = 1, 8 do t[i] = i end end
  return t
end

local function erased(t, n, from, to, step)
  for i = from or 1, to or 8, step or 1 do
    if not bit(n, i) then t[i] = nil end
  end
  return t
end

local function list(n, k)
  local t = {}
  for i = 1, k or 8 do if bit(n, i) then t[i] = i end end
  return t
end

local function values(n, k) return table.unpack(list(n, k), 1, k or 8) end

-- Stores and erasures in both directions.
matrix("store up", function(n) return #stored(n) end)
matrix("store down", function(n) return #stored(n, 8, 1, -1) end)
matrix("store nil too", function(n)
  local t = {}
  for i = 1, 8 do t[i] = bit(n, i) and i or nil end
  return #t
end)
for _, way in ipairs { "store", "constructor", "append", "insert", "strings" } do
  matrix("erase up, " .. way, function(n) return #erased(full8(way), n) end)
  matrix("erase down, " .. way, function(n) return #erased(full8(way), n, 8, 1, -1) end)
end
for size = 1, 7 do
  matrix("erase from " .. size, function(n)
    local t = {}
    for i = 1, size do t[i] = i end
    return #erased(t, n, 1, size)
  end, 0, 2 ^ size - 1 | 0)
  matrix("erase from appended " .. size, function(n)
    local t = {}
    for i = 1, size do t[#t + 1] = i end
    return #erased(t, n, 1, size)
  end, 0, 2 ^ size - 1 | 0)
end

-- Lists.
for k = 1, 8 do
  matrix("pack " .. k, function(n) return #table.pack(values(n, k)) end, 0, 2 ^ k - 1 | 0)
  matrix("{...} " .. k, function(n) return #{ values(n, k) } end, 0, 2 ^ k - 1 | 0)
  matrix("{x, ...} " .. k, function(n) return #{ n, values(n, k) } end, 0, 2 ^ k - 1 | 0)
  matrix("constructor " .. k, function(n)
    local items = {}
    for i = 1, k do items[i] = bit(n, i) and tostring(i) or "nil" end
    return #load("return {" .. table.concat(items, ",") .. "}")()
  end, 0, 2 ^ k - 1 | 0)
  matrix("function in constructor " .. k, function(n)
    local items = {}
    for i = 1, k do items[i] = bit(n, i) and tostring(i) or "nil" end
    local f = load("return function() return {" .. table.concat(items, ",") .. "} end")()
    f()
    return #f()
  end, 0, 2 ^ k - 1 | 0)
end
matrix("unpack packed", function(n) return select("#", table.unpack(table.pack(values(n)))) end)
matrix("unpack stored", function(n) return select("#", table.unpack(stored(n))) end)
matrix("unpack {...}", function(n) return select("#", table.unpack { values(n) }) end)

-- What comes after.
local function shape(t, last)
  local s = {}
  for i = 1, last or 12 do s[i] = t[i] == nil and "." or tostring(t[i]) end
  return table.concat(s)
end
local makers = {
  store = stored,
  pack = function(n) return table.pack(values(n)) end,
  list = function(n) return { values(n) } end,
  erase = function(n) return erased(full8("append"), n) end,
}
for _, name in ipairs { "store", "pack", "list", "erase" } do
  local make = makers[name]
  matrix(name .. ", insert", function(n)
    local t = make(n)
    table.insert(t, "x")
    return shape(t) .. #t
  end)
  matrix(name .. ", insert at 1", function(n)
    local t = make(n)
    table.insert(t, 1, "x")
    return shape(t) .. #t
  end)
  matrix(name .. ", remove", function(n)
    local t = make(n)
    table.remove(t)
    return shape(t) .. #t
  end)
  matrix(name .. ", remove at 1", function(n)
    local t = make(n)
    if #t > 0 then table.remove(t, 1) end
    return shape(t) .. #t
  end)
  matrix(name .. ", append twice", function(n)
    local t = make(n)
    t[#t + 1] = "x"
    t[#t + 1] = "y"
    return shape(t) .. #t
  end)
  for beyond = 9, 12 do
    matrix(name .. ", then " .. beyond, function(n)
      local t = make(n)
      t[beyond] = beyond
      return #t
    end)
  end
  matrix(name .. ", asked, then 9 and 10", function(n)
    local t = make(n)
    local before = #t
    t[9] = 9
    t[10] = 10
    return before .. "-" .. #t
  end)
  matrix(name .. ", read, asked twice", function(n)
    local t = make(n)
    local a = #t
    local b = t[7]
    local c = #t
    b = t[8]
    return a .. "-" .. c .. "-" .. #t
  end)
  matrix(name .. ", other keys", function(n)
    local t = make(n)
    t[-1] = 1
    t[0] = 2
    t[2.5] = 3
    return #t
  end)
  matrix(name .. ", holes filled", function(n)
    local t = make(n)
    local a = #t
    for i = 1, 8 do if t[i] == nil then t[i] = "f" end end
    return a .. "-" .. #t
  end)
end

-- Two tables out of many longer ones, by a small generator of numbers.
local seed = 42
local function random(k)
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return seed // 65536 % k + 1
end
for round = 1, 60 do
  local t, trail = {}, {}
  for _ = 1, 40 do
    local what, key = random(6), random(20)
    if what <= 3 then t[key] = key
    elseif what == 4 then t[key] = nil
    elseif what == 5 then t[#t + 1] = "a"
    else t[#t] = nil end
    trail[#trail + 1] = #t
  end
  print("random " .. round, table.concat(trail, " "))
end

-- Sizes beyond the small ones.
for _, n in ipairs { 9, 15, 16, 17, 31, 33, 50, 51, 64, 65, 100, 101, 127, 128, 129, 200, 255, 256, 257, 300, 1000 } do
  local items = {}
  for i = 1, n do items[i] = i end
  local packed = table.pack(table.unpack(items))
  packed[n // 2] = nil
  local listed = { table.unpack(items) }
  listed[n // 2] = nil
  listed[n] = nil
  local appended = {}
  for i = 1, n do appended[#appended + 1] = i end
  appended[n // 2] = nil
  local written = load("return {" .. table.concat(items, ",") .. ",nil,nil,1,nil}")()
  print(n, #packed, #listed, #appended, #written)
end
