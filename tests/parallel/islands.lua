-- Islands: frozen deep copies that every domain reads as ordinary tables.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, (tostring(message):gsub("0x%x+", "ADDR")))
end

local Point = {}
Point.__index = Point
function Point:norm2() return self.x * self.x + self.y * self.y end
Point.__add = function(a, b) return a.x + b.x end

local data = { name = "universe", list = { 1, 2, 3 }, floats = { 1.5, 2.5 }, dict = {}, p = setmetatable({ x = 3, y = 4 }, Point) }
for i = 1, 100 do data.dict["key" .. i] = i end
data.self = data
local s = pl.share(data)
print(pl.is_shared(s), pl.is_shared(data), pl.is_shared(s.list), s.self == s, s ~= data)
print(s.name, #s.list, s.list[2], s.floats[2], s.dict.key50, s.p:norm2(), s.p + s.p)
data.name = "changed"
print(s.name)

-- reading in every way
local n = 0
for k, v in pairs(s.dict) do n = n + v end
print(n, next(s.list), table.concat(s.list, ","), table.unpack(s.list))
local names = {}
for k in pairs(s) do names[#names + 1] = k end
table.sort(names)
print(table.concat(names, " "))
local own = {}
for k, v in pairs(s.dict) do own[k] = v end
print(own.key7, own["key" .. 99], rawequal(s.name, "universe"), s.name == "universe", #s.name)

-- writing in every way
refused(function() s.name = "x" end)
refused(function() s.new = 1 end)
refused(function() s.list[1] = 9 end)
refused(function() s.list[#s.list + 1] = 9 end)
refused(function() s.name = nil end)
refused(function() s.dict.key1 = 2 end)
refused(rawset, s, "name", 1)
refused(table.insert, s.list, 1)
refused(table.remove, s.list)
refused(table.sort, s.list)
refused(setmetatable, s, {})
refused(function() debug.setmetatable(s, nil) end)
local function write(t) t.x = 1 end
write({ x = 0 }) write({ x = 0 })
refused(write, s.p)
print(s.p.x)

-- other domains see the same object
local d = pl.domain.spawn(function(s)
  local sum = 0
  for i = 1, 100 do sum = sum + s.dict["key" .. i] end
  return sum, s.p:norm2(), s, s.list
end, s)
local sum, norm, back, list = d:join()
print(sum, norm, back == s, list == s.list)
local c = pl.channel.new()
c:send(s.p, { inner = s.list })
local p, t = c:recv()
print(p == s.p, t.inner == s.list)

-- what is captured may be shared, and so may functions
local f = pl.share { twice = function(x) return x * 2, s.name end }
print(f.twice(21))
print(pl.domain.spawn(function() return f.twice(4) end):join())
print(pl.atomic(s):load() == s)

refused(pl.share, { a = { b = coroutine.create(print) } })
refused(pl.share, { f = io.stdout })
refused(pl.share, setmetatable({}, { __gc = function() end }))
refused(pl.share, setmetatable({}, { __mode = "k" }))
print(pl.share(5), pl.share("text"), pl.share(nil), pl.is_shared(1), pl.is_shared(c))

-- a long chain, and rubbish
local chain = {}
for i = 1, 100000 do chain = { chain, i } end
chain = pl.share(chain)
local depth = 0
while chain[1] do chain, depth = chain[1], depth + 1 end
print(depth)
for i = 1, 2000 do pl.share { i, { i } } end
collectgarbage()
print(collectgarbage "count" < 20000)
