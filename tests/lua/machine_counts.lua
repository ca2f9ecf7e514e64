-- count[k] = (count[k] or 0) + 1 in machine code: a node that has been found is looked for once, until something else may have been stored.
local function sorted(t)
  local list = {}
  for k, v in pairs(t) do list[#list + 1] = tostring(k) .. "=" .. tostring(v) end
  table.sort(list)
  return table.concat(list, " ")
end
local words = {}
for i = 1, 7 do words[i] = "w" .. i end
local function count(keys, n)
  local seen = {}
  for i = 1, n do
    local k = keys[i % #keys + 1]
    seen[k] = (seen[k] or 0) + 1
  end
  return seen
end
print(sorted(count(words, 1000)))
print(sorted(count({ "a", "b", 1e15, -7, 2^53, "a" }, 900)))
do
  local keys = { {}, {}, {} }
  local seen = count(keys, 700)
  print(seen[keys[1]], seen[keys[2]], seen[keys[3]])
end
-- Keys that are made anew each time, and short and long ones.
do
  local seen = {}
  for i = 1, 600 do
    local k = "k" .. i % 5
    seen[k] = (seen[k] or 0) + i
    local long = ("long "):rep(20) .. i % 3
    seen[long] = (seen[long] or 0) + 1
  end
  print(sorted(seen))
end

-- The same table by another name, which changes it between.
local function between(t, u, change, n)
  for i = 1, n do
    local k = words[i % #words + 1]
    local before = t[k] or 0
    change(u, k, i)
    t[k] = before + 1
  end
  return sorted(t)
end
local changes = {
  nothing = function() end,
  gone = function(u, k) u[k] = nil end,
  grows = function(u, _, i) u["x" .. i % 40] = i end,
  emptied = function(u) for k in pairs(u) do u[k] = nil end end,
  collected = function(u, k, i) if i % 50 == 0 then u[k] = nil collectgarbage() end end,
  other = function(u, k) u[k] = "text" end,
}
for _, name in ipairs { "nothing", "gone", "grows", "emptied", "collected", "other" } do
  local t = { w1 = 5 }
  print(name, #between(t, t, changes[name], 300), between({}, {}, changes[name], 300))
end
-- In line, without a call between.
do
  local t, u = {}, nil
  u = t
  for i = 1, 500 do
    local k, other = words[i % 7 + 1], words[i % 3 + 1]
    local v = t[k]
    u[other] = i
    if i % 11 == 0 then u[k] = nil end
    t[k] = (v or 0) + 1
  end
  print(sorted(t))
end
-- Keys and tables that the instruction itself replaces.
do
  local chain = {}
  for i = 1, 6 do chain["c" .. i] = "c" .. i % 6 + 1 end
  local k, steps = "c1", 0
  for _ = 1, 500 do
    k = chain[k]
    chain[k] = chain[k]
    steps = steps + #k
  end
  print(k, steps, sorted(chain))
  local tree = { name = "root" }
  local at = tree
  for i = 1, 6 do at["next"] = { name = "n" .. i } at = at["next"] end
  at["next"] = tree
  local field, names = "next", {}
  at = tree
  for _ = 1, 300 do
    at = at[field]
    at["seen"] = (at["seen"] or 0) + 1
    names[at["name"]] = (names[at["name"]] or 0) + 1
  end
  print(sorted(names))
end
-- Metatables, and weak tables.
do
  local log = 0
  local t = setmetatable({}, { __index = function(_, k) log = log + 1 return 100 end })
  for i = 1, 300 do local k = words[i % 7 + 1] t[k] = (t[k] or 0) + 1 end
  print(log, sorted(t))
  local stored = {}
  local p = setmetatable({}, { __newindex = function(_, k, v) stored[k] = v end })
  for i = 1, 300 do local k = words[i % 7 + 1] p[k] = (p[k] or 0) + 1 end
  print(sorted(p), sorted(stored))
  local weak, alive = setmetatable({}, { __mode = "k" }), {}
  for i = 1, 10 do alive[i] = { i } end
  for i = 1, 400 do
    local k = i % 3 == 0 and { 0 } or alive[i % 10 + 1]
    weak[k] = (weak[k] or 0) + 1
    if i % 100 == 0 then collectgarbage() end
  end
  collectgarbage()
  local sum = 0
  for k, v in pairs(weak) do if k[1] > 0 then sum = sum + v end end
  print(sum)
end
-- Values of changing types.
do
  local t = {}
  for i = 1, 400 do
    local k = words[i % 7 + 1]
    local v = t[k]
    if v == nil then t[k] = 0 elseif v == 20 then t[k] = 0.5 elseif v == 25.5 then t[k] = true elseif v == true then t[k] = "s" elseif v == "s" then t[k] = nil else t[k] = v + 1 end
  end
  print(sorted(t))
end
