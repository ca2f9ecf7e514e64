-- `for ... in pairs`: fields, nodes, arrays, changes on the way.
local function sorted(t, f)
  local out = {}
  for k, v in pairs(t) do out[#out + 1] = tostring(k) .. "=" .. tostring(v); if f then f(t, k, v) end end
  table.sort(out)
  return table.concat(out, " ")
end
local function record() return { a = 1, b = 2, c = 3, d = 4 } end
print(sorted(record()))
local dict = {}
for i = 1, 40 do dict["k" .. i] = i end
local n, sum = 0, 0
for k, v in pairs(dict) do n = n + 1; sum = sum + v; assert(k == "k" .. v) end
print(n, sum)
-- removal of the entry at hand, of all, assignment to others
for _, make in ipairs { record, function() local t = {}; for k, v in pairs(dict) do t[k] = v end; return t end } do
  local t = make(); sorted(t, function(t, k) t[k] = nil end); print(next(t))
  t = make(); local visited = 0
  for k in pairs(t) do visited = visited + 1; for o in pairs(t) do if o ~= k then t[o] = nil end end end
  print(visited)
  t = make(); for k, v in pairs(t) do t[k] = -v; collectgarbage("step") end
  local s = 0; for _, v in pairs(t) do s = s + v end; print(s)
end
-- holes in records
local r = record(); r.a = nil; r.c = nil; print(sorted(r))
r.d = nil; print(sorted(r)); r.b = nil; print(sorted(r), next(r))
-- mixed parts
local mixed = { 10, 20, 30, x = 1, [0.5] = 2, [true] = 3, [-1] = 4 }
print(sorted(mixed))
local m2 = { 1, 2, nil, 4 }; m2.z = 26; print(sorted(m2))
-- the loop's own variable may be assigned; `next` from a given key
for k, v in pairs(record()) do k = "other"; v = nil end
local rec = record()
local first = next(rec)
local rest = 0; for k in next, rec, first do rest = rest + 1 end; print(rest)
for k in next, dict, (next(dict)) do rest = rest + 1 end; print(rest)
-- a traversal in a table that becomes another kind of table is an error or goes on, but never lies about values
local t = record()
for k, v in pairs(t) do assert(t[k] == v) end
-- one and three variables
for k in pairs { only = 1 } do print(k) end
for k, v, w in pairs { only = 1 } do print(k, v, w) end
for k, v, w in pairs { [{}] = 1 } do print(type(k), v, w) end
-- values that go away behind the traversal's back
local weak = setmetatable({}, { __mode = "v" })
for i = 1, 30 do weak["w" .. i] = {} end
local alive = 0
for k, v in pairs(weak) do assert(type(v) == "table"); v = nil; collectgarbage(); alive = alive + 1 end
print(alive <= 2)
