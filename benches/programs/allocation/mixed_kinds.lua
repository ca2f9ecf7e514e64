-- Every kind of object in turn: records, arrays, closures, strings; most die at once, some stay.
-- bench: group=allocation size=3500000 quick=200000
local n = tonumber(arg and arg[1]) or 3500000

local kept, slots = {}, 512
local live = 0
for i = 1, n do
  local k = i % 4
  local v
  if k == 0 then v = { a = i, b = i }
  elseif k == 1 then v = { i, i + 1, i + 2, i + 3 }
  elseif k == 2 then local c = i; v = function() c = c + 1; return c end
  else v = "s" .. i end
  if i % 8 < 4 then
    local at = (i * 31) % slots
    local old = kept[at]
    if not old then live = live + 1 end
    kept[at] = v
  end
end
local sum, count = 0, 0
for _, v in pairs(kept) do
  count = count + 1
  local kind = type(v)
  if kind == "function" then sum = sum + v()
  elseif kind == "string" then sum = sum + tonumber(v:sub(2))
  elseif v.a then sum = sum + v.b
  else sum = sum + v[4] end
end
assert(count == live)
local result = string.format("mixed_kinds %d %d", count, sum)
local known = { [200000] = "mixed_kinds 256 51134592", [3500000] = "mixed_kinds 256 895934592" }
assert(not known[n] or result == known[n], result)
print(result)
