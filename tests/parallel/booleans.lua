-- Arrays of booleans that cross, as arguments, results, messages, captured variables, and in islands: they arrive as what
-- they are, beside arrays of other kinds, and are the receiver's own.
local pl = require "perilune"
local json = require "perilune.json"
local pool = pl.pool.new { workers = 2 }

local function flags(n)
  local t = {}
  for i = 1, n do t[i] = i % 3 == 0 end
  return t
end
local function show(t, n)
  local s = {}
  for i = 1, n or #t do s[i] = t[i] == true and "T" or t[i] == false and "F" or tostring(t[i]) end
  return table.concat(s, " ")
end
local function same(t, u)
  if #t ~= #u then return false end
  for i = 1, #t do if t[i] ~= u[i] then return false end end
  return true
end

-- There and back, of every length that a word does not hold exactly.
local function negated(t)
  local r = {}
  for i = 1, #t do r[i] = not t[i] end
  t[#t + 1] = true
  t[1] = "the receiver's own"
  return r, t, #t
end
for _, n in ipairs { 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 1000, 100001 } do
  local t = flags(n)
  local r, u, len = pool:async(negated, t):await()
  local back = {}
  for i = 1, #r do back[i] = not r[i] end
  print(n, same(back, t), len, u[1], u[2], u[n + 1], t[1], t[n + 1])
  r[n] = nil; r[n] = true; r[n + 1] = 5
  print(#r, r[n], r[n + 1], r[1])
end

-- Beside others, more than once in a graph, with fields, keys of all kinds and a metatable.
local shared = flags(5)
local graph = { shared, { 1, 2, 3 }, { 0.5, 1.5 }, { true, "x", 2 }, shared, { true, nil, false }, {}, flags(20), name = shared }
shared.name, shared[0], shared[100], shared.own = "five", true, false, shared
local function look(g)
  return show(g[1]), show(g[2]), show(g[3]), show(g[4]), g[1] == g[5] and g[1] == g.name and g[1].own == g[1], show(g[6], 3),
    #g[7], show(g[8]), g[1].name, g[1][0], g[1][100]
end
print(look(graph))
print(pool:async(look, graph):await())
print(look(pool:async(function(g) return g end, graph):await()))

-- Arrays that have been longer, that were of another kind, that have holes.
local changed = flags(200)
for i = 200, 11, -1 do changed[i] = nil end
local emptied = flags(9)
for i = 9, 1, -1 do emptied[i] = nil end
local refilled = { 1, 2, 3 }
for i = 1, 3 do refilled[i] = nil end
for i = 1, 9 do refilled[i] = i > 4 end
local holed = flags(70)
holed[35] = nil
local function sizes(...)
  local s = {}
  for i, t in ipairs { ... } do s[i] = #t .. ":" .. show(t, math.min(#t, 12)) end
  return table.concat(s, " "), (select(4, ...))[35], (select(4, ...))[36]
end
print(sizes(changed, emptied, refilled, holed))
print(pool:async(sizes, changed, emptied, refilled, holed):await())

-- Messages.
local requests, answers = pl.channel.new(), pl.channel.new()
local worker = pool:async(function()
  for t in requests do
    local yes = 0
    for _, v in ipairs(t) do if v then yes = yes + 1 end end
    t[#t + 1] = yes > 2
    answers:send(t)
  end
end)
for n = 1, 12 do
  requests:send(flags(n))
  print(n, show(answers:recv()))
end
requests:close()
worker:await()

-- What tasks capture, and loops.
local board, sums = flags(50), pl.array("i64", 50)
pool:parallel_for(1, 50, function(i) sums[i] = board[i] and 1 or 0 end)
local sum = 0
for i = 1, 50 do sum = sum + sums[i] end
print(sum)

-- Islands.
local island = pl.share { flags = flags(30), deep = { { true }, { false, true } }, dict = { [true] = flags(3) }, none = emptied }
print(show(island.flags), #island.flags, show(island.deep[2]), show(island.dict[true]), #island.none, next(island.none))
print(pcall(function() island.flags[1] = true end))
print(pcall(function() island.flags[31] = true end))
print(pcall(table.insert, island.flags, true))
print(table.unpack(island.flags, 2, 6))
local function count(list)
  local yes, sum = 0, 0
  for i = 1, #list do if list[i] then yes = yes + 1 end end
  for _, v in ipairs(list) do if v then sum = sum + 1 end end
  for k, v in pairs(list) do if v then sum = sum + k end end
  return yes, sum
end
for _ = 1, 50 do count(island.flags) end
print(count(island.flags))
print(pool:async(function() return count(island.flags), show(island.flags), island.deep[1][1] end):await())
print(show(table.move(island.flags, 1, 10, 1, {})))

-- Data.
print(json.encode(flags(7)), json.encode { true, 1, "x" }, json.encode { list = flags(2) })
local decoded = json.decode("[true, false, true]")
decoded[4], decoded[2] = false, true
print(show(decoded), json.encode(decoded), show(json.decode("[true, 1]")), #json.decode("[[true],[false]]")[2])
print(pl.inspect(flags(5)))
