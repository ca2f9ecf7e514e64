-- Islands live as long as something refers to them.
local keep = {}
for i = 1, 300 do
  local s = share { i = i, list = { i, i + 1 }, name = "n" .. i, f = function() return i end }
  if i % 10 == 0 then keep[#keep + 1] = s.list end
  if i % 15 == 0 then keep[#keep + 1] = s.f end
  if i % 7 == 0 then keep[s.name] = true end
end
collectgarbage()
collectgarbage()
local n = 0
for i, v in ipairs(keep) do
  n = n + (type(v) == "function" and v() or v[1])
end
assert(n > 0 and keep.n7 and keep["n" .. 294])
verify()

-- only the inner island is left
local inner = share { deep = { "text" } }
local deep
do
  local outer = share { inner = inner, more = { inner.deep } }
  inner = nil
  deep = outer.more[1]
end
collectgarbage()
collectgarbage()
assert(deep[1] == "text")

-- weak references do not keep an island
local weak = setmetatable({}, { __mode = "v" })
weak[1], weak[2] = share { 1 }, share { 2 }
local strong = weak[2]
local ephemerons = setmetatable({}, { __mode = "k" })
ephemerons[share { 3 }] = "gone"
ephemerons[strong] = "kept"
collectgarbage()
collectgarbage()
assert(weak[1] == nil and weak[2] == strong and ephemerons[strong] == "kept")
local left = 0
for _ in pairs(ephemerons) do left = left + 1 end
assert(left == 1)
verify()

-- a chain of islands
local chain
for i = 1, 2000 do chain = share { prev = chain, i = i } end
local len = 0
local at = chain
while at do len = len + 1; at = at.prev end
assert(len == 2000)
at, chain = nil, nil
collectgarbage()

-- caches do not confuse an island with one that was at the same place before
local function read(o) return o.value, o["a key"], o.method and o:method() end
for i = 1, 2000 do
  local o = share { value = i, ["a key"] = i * 2, [0.5] = 1, method = function() return i end }
  local p = setmetatable({}, share { __index = { value = i, ["a key"] = i * 2, method = function() return i end } })
  for _, x in ipairs { o, p } do
    local a, b, c = read(x)
    assert(a == i and b == i * 2 and c == i)
  end
  if i % 100 == 0 then collectgarbage() end
end
verify()

-- an island made while a major collection is under way keeps what only it refers to
do
  local kept, garbage = {}, {}
  for i = 1, 600 do
    local holder = { { { share { deep = { i } } } } }
    for j = 1, 20 do garbage[j] = { { j }, i } end
    local outer = share { holder[1][1][1] }
    holder = nil
    for j = 1, 20 + i % 50 do garbage[j] = { { j }, i } end
    collectgarbage "step"
    kept[i % 40] = outer[1].deep
    outer = nil
    collectgarbage "step"
    for k, v in pairs(kept) do assert(v[1] % 40 == k) end
  end
end
verify()
