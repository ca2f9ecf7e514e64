-- Large weak tables that are stored into between collections: entries whose keys or values die go, the others stay, wherever they are.
local function churn() for i = 1, 2000 do local x = { i } end end

for _, mode in ipairs { "k", "v", "kv" } do
  local t = setmetatable({}, { __mode = mode })
  local kept, count = {}, 3000
  local function put(i, keep)
    local key, value = { i }, { -i }
    t[key] = value
    kept[i] = keep and { key, value } or nil
  end
  for i = 1, count do put(i, i % 3 ~= 0) end
  collectgarbage()
  local seed = 7
  for round = 1, 40 do
    for _ = 1, 50 do
      seed = seed * 16807 % 2147483647
      put(seed % count + 1, seed % 5 ~= 0)
    end
    churn()
    if round % 10 == 0 then collectgarbage("step") end
    for _, pair in pairs(kept) do
      assert(t[pair[1]] == pair[2] and pair[1][1] == -pair[2][1])
    end
  end
  collectgarbage()
  local left = 0
  for key, value in pairs(t) do
    local pair = kept[key[1]]
    assert(pair and pair[1] == key and pair[2] == value)
    left = left + 1
  end
  local want = 0
  for _ in pairs(kept) do want = want + 1 end
  print(mode, left == want, want)
end

-- Values of ephemerons that refer to other keys, in chains through a large table.
local e, head = setmetatable({}, { __mode = "k" }), { 0 }
for i = 1, 2000 do e[{ i }] = i end
collectgarbage()
local last = head
for i = 1, 300 do
  local next = { i }
  e[last] = next
  last = next
  churn()
end
local at, length = head, 0
while e[at] do at, length = e[at], length + 1 end
print(length)
last, at = nil, nil
head = nil
collectgarbage()
print(next(e))

-- A large weak array.
local a = setmetatable({}, { __mode = "v" })
local strong = {}
for i = 1, 2000 do a[i] = i end
collectgarbage()
for i = 1, 2000, 7 do
  a[i] = { i }
  if i % 2 == 0 then strong[i] = a[i] end
  if i % 10 == 1 then churn() end
end
collectgarbage()
local gone, there = 0, 0
for i = 1, 2000, 7 do
  if i % 2 == 0 then assert(a[i] == strong[i] and a[i][1] == i) there = there + 1
  else assert(a[i] == nil) gone = gone + 1 end
end
print(gone, there)
