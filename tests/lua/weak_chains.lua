-- Ephemerons that keep each other alive over several links, tables of both kinds, plain values behind weak keys, minor and major collections.
local function chain(tables, length)
  local head = {}
  local key = head
  for i = 1, length do
    local value = { i }
    tables[i % #tables + 1][key] = value
    key = value
  end
  return head
end
local function eph() return setmetatable({}, { __mode = "k" }) end
local function count(t) local n = 0; for _ in pairs(t) do n = n + 1 end; return n end

for _, mode in ipairs { "generational", "incremental" } do
  collectgarbage(mode)
  local tables = { eph(), eph(), eph() }
  local head = chain(tables, 50)
  chain(tables, 50)
  for _ = 1, 3 do collectgarbage("step"); collectgarbage() end
  local n = 0
  for _, t in ipairs(tables) do n = n + count(t) end
  print(mode, n)
  -- walk it
  local at, length = head, 0
  while at do
    local following
    for _, t in ipairs(tables) do following = following or t[at] end
    if following then length = length + 1; assert(following[1] == length) end
    at = following
  end
  print(length)
  head = nil; at = nil
  collectgarbage(); collectgarbage()
  n = 0
  for _, t in ipairs(tables) do n = n + count(t) end
  print(n)
end

-- plain values, strings, and the key itself as value
local plain = eph()
local kept = {}
for i = 1, 100 do local k = {}; plain[k] = i; if i % 10 == 0 then kept[#kept + 1] = k end end
for i = 1, 100 do local k = {}; plain[k] = "text" .. i; if i % 10 == 0 then kept[#kept + 1] = k end end
for i = 1, 100 do local k = {}; plain[k] = k; if i % 10 == 0 then kept[#kept + 1] = k end end
collectgarbage()
print(count(plain), #kept)
for _, k in ipairs(kept) do assert(plain[k]) end

-- an ephemeron table that only an ephemeron reaches
local outer, key = eph(), {}
outer[key] = eph()
local inner = {}
outer[key][inner] = { "deep" }
outer[key][{}] = { "gone" }
collectgarbage()
print(count(outer), count(outer[key]), outer[key][inner][1])

-- weak keys and values at once; weak values with object keys; churn through the nursery
local both = setmetatable({}, { __mode = "kv" })
local values = setmetatable({}, { __mode = "v" })
local hold = {}
for i = 1, 300 do
  local k, v = { i }, { -i }
  both[k], values[i] = v, v
  if i % 3 == 0 then hold[k] = v end
end
collectgarbage()
print(count(both), count(values))
local seen = eph()
local live
for i = 1, 20000 do
  local k = { i }
  seen[k] = { owner = i }
  if i % 1000 == 0 then live = { k, live } end
end
collectgarbage()
print(count(seen))
while live do assert(seen[live[1]].owner == live[1][1]); live = live[2] end

-- finalisers see entries with weak keys, not those with weak values
local notes, names = eph(), setmetatable({}, { __mode = "v" })
local report
do
  local obj = setmetatable({}, { __gc = function(o) report = { notes[o] and notes[o][1], names.obj } end })
  notes[obj] = { "note" }
  names.obj = obj
end
collectgarbage()
print(report[1], report[2])
collectgarbage()
print(count(notes))
