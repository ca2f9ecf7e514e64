-- Fields of records by names that come as values: read, written, missing, inherited, removed and added while
-- the loops run as machine code.

-- A table of tables: what there is, and what is missing.
local machine = {
  idle = { start = "running" },
  running = { pause = "paused", stop = "idle" },
  paused = { resume = "running", stop = "idle" },
}
local events, state, moves = { "start", "pause", "resume", "stop", "nonsense" }, "idle", 0
for i = 1, 5000 do
  local to = machine[state][events[i % 5 + 1]]
  if to then state, moves = to, moves + 1 end
end
print(state, moves)

-- Counters; a string that is made at run time as a name.
local counts = { red = 0, green = 0, blue = 0 }
local names = { "red", "gr" .. "een", "blue" }
for i = 1, 3000 do
  local name = names[i % 3 + 1]
  counts[name] = counts[name] + 1
end
for i = 1, 3000 do
  local name = ("xredx"):sub(2, 4)
  counts[name] = counts[name] + i % 2
end
print(counts.red, counts.green, counts.blue)

-- The fields change under the loop: types, nil, new ones, until it is a dictionary.
local record = { a = 1, b = 2.5, c = "c", d = true, e = false }
local keys, log = { "a", "b", "c", "d", "e", "f" }, {}
for i = 1, 3000 do
  local key = keys[i % 6 + 1]
  local value = record[key]
  if i == 500 then record.a = 1.5 end
  if i == 700 then record.b = nil end
  if i == 900 then record.f = "f" end
  if i == 1200 then record[key] = nil end
  if i == 1500 then for n = 1, 100 do record["x" .. n] = n end end
  if i == 1800 then record.c = record end
  if i % 250 < 6 then log[#log + 1] = key .. "=" .. (value == record and "itself" or tostring(value)) end
end
print(table.concat(log, " "))

-- Names of fields that a class has.
local Class = { kind = "class", size = 10 }
Class.__index = Class
local object = setmetatable({ size = 1 }, Class)
local asked, sum = { "size", "kind", "none", "__index" }, 0
for i = 1, 3000 do
  local value = object[asked[i % 4 + 1]]
  if i == 1000 then object.kind = "own" end
  if i == 1500 then object.size = nil end
  if i == 2000 then Class.none = 7 end
  if i == 2500 then object.none = 8 end
  sum = sum + (type(value) == "number" and value or type(value) == "string" and #value or 0)
end
print(sum)

-- Metamethods for what is missing, and for stores.
local seen = {}
local guarded = setmetatable({ x = 1, y = 2 }, {
  __index = function(_, k) seen[k] = (seen[k] or 0) + 1 return 0 end,
  __newindex = function(_, k, v) seen[k] = (seen[k] or 0) + 100 end,
})
local fields, total = { "x", "y", "z" }, 0
for i = 1, 3000 do
  local k = fields[i % 3 + 1]
  guarded[k] = guarded[k] + 1
  if i == 1500 then guarded.x = nil end
  total = total + guarded[k]
end
print(total, seen.x, seen.y, seen.z, rawget(guarded, "x"), rawget(guarded, "y"))

-- Another name for the same table: what was known of its fields is not known any more.
local point, by_name = { x = 0, y = 0 }, { "x", "y" }
local same, trace = point, 0
for i = 1, 3000 do
  point.x = i
  same[by_name[i % 2 + 1]] = -1
  trace = trace + point.x + point.y
  point.y = 3
end
print(trace)

-- A class whose methods are replaced by name.
local Shape = { area = function() return 1 end, name = function() return "s" end }
Shape.__index = Shape
local shape, methods, areas = setmetatable({}, Shape), { "area", "name" }, 0
for i = 1, 2000 do
  local m = methods[i % 2 + 1]
  if i % 500 == 0 then Shape[m] = function() return i end end
  local v = shape[m]()
  areas = areas + (tonumber(v) or 0) + (type(shape.area()) == "number" and shape.area() or 0)
end
print(areas)

-- Frozen and many: as many records and names as the memory of fields cannot hold.
local makers, found = {}, 0
for i = 1, 60 do
  local text = "return { "
  for k = 1, 40 do text = text .. "n" .. i .. "_" .. k .. " = " .. k .. ", " end
  makers[i] = load(text .. "}")()
end
for round = 1, 3 do
  for i = 1, 60 do
    local one = makers[i]
    for k = 1, 41 do
      found = found + (one["n" .. i .. "_" .. k] or 100)
      if k <= 40 then one["n" .. i .. "_" .. k] = k + round end
    end
  end
end
print(found)
collectgarbage()
for i = 1, 60 do found = found + makers[i]["n" .. i .. "_" .. 40] end
print(found)
