-- The library on lists that have a metatable: classes of lists, and lists that watch what is stored.
local List = {}
List.__index = List
local function list(...) return setmetatable({ ... }, List) end
local function show(t)
  local words = {}
  for i = 1, rawlen(t) do words[i] = tostring(rawget(t, i)) end
  return table.concat(words, " ")
end
local kinds = {
  class = function() return List end,
  text = function() return { __tostring = function() return "a list" end } end,
  defaults = function() return { __index = function(_, k) return "no " .. tostring(k) end } end,
  watched = function(log) return { __newindex = function(t, k, v) log[#log + 1] = k .. "=" .. tostring(v) rawset(t, k, v) end } end,
  counted = function(log) return { __len = function(t) log[#log + 1] = "len" return rawlen(t) end } end,
  short = function() return { __len = function() return 3 end } end,
  full = function(log)
    return { __index = function(_, k) log[#log + 1] = "?" .. tostring(k) end, __len = function(t) return rawlen(t) end,
      __newindex = function(t, k, v) log[#log + 1] = k .. ":" .. tostring(v) rawset(t, k, v) end }
  end,
}
for _, name in ipairs { "class", "text", "defaults", "watched", "counted", "short", "full" } do
  local log = {}
  local mt = kinds[name](log)
  local function new(...) return setmetatable({ ... }, mt) end
  local function note(what, t, ...) print(name, what, show(t), table.concat({ ... }, ","), table.concat(log, " ")) for i = #log, 1, -1 do log[i] = nil end end
  local t = new(1, 2, 3, 4, 5)
  table.insert(t, 3, "x") note("insert 3", t)
  table.insert(t, 1, "first") note("insert 1", t)
  table.insert(t, "last") note("append", t)
  note("remove 2", t, tostring(table.remove(t, 2)))
  note("remove 1", t, tostring(table.remove(t, 1)))
  note("remove", t, tostring(table.remove(t)))
  local empty = new()
  note("remove of none", empty, tostring(table.remove(empty)))
  table.insert(empty, 1, "one") note("first", empty)
  local holes = new(1, nil, 3, nil, 5)
  print(name, "hole", pcall(table.insert, holes, 2, "y"))
  for i = #log, 1, -1 do log[i] = nil end
  local numbers = new(5, 3, 9, 1, 7, 2, 8)
  table.sort(numbers) note("sort", numbers)
  table.sort(numbers, function(a, b) return a > b end) note("sort by", numbers)
  note("move", table.move(new(1, 2, 3, 4), 1, 3, 2))
  note("out", table.move(new(1, 2, 3), 1, 3, 1, new()))
  note("unpack", new(1, 2, 3), table.unpack(new(1, 2, 3)))
  print(name, pcall(table.insert, new(1, 2), 5, "z"))
  print(name, pcall(table.remove, new(1, 2), 5))
  for i = #log, 1, -1 do log[i] = nil end
end
-- Many, against a plain list.
local own, plain = list(), {}
local seed = 7
local function random(n) seed = seed * 16807 % 2147483647 return seed % n + 1 end
for i = 1, 2000 do
  local at = random(#plain + 1)
  table.insert(own, at, i) table.insert(plain, at, i)
  if i % 3 == 0 then
    local from = random(#plain)
    assert(table.remove(own, from) == table.remove(plain, from))
  end
end
for i = 1, #plain do assert(own[i] == plain[i]) end
table.sort(own, function(a, b) return a < b end) table.sort(plain)
for i = 1, #plain do assert(own[i] == plain[i]) end
-- A comparison that gives the list a metatable, or takes it.
local t = { 3, 1, 2 }
table.sort(t, function(a, b) setmetatable(t, List) return a < b end)
print(show(t), getmetatable(t) == List)
table.sort(t, function(a, b) setmetatable(t, nil) return a > b end)
print(show(t), getmetatable(t))
print(#own, #plain)
