-- Functions that end by calling a library function, during which a collection moves the stack: what has called them goes on once, and not twice.
local function show(t, seen)
  seen = seen or {}
  if type(t) ~= "table" then return tostring(t) end
  if seen[t] then return "..." end
  seen[t] = true
  local keys = {}
  for k, v in pairs(t) do keys[#keys + 1] = (type(k) == "table" and "table" or tostring(k)) .. "=" .. show(v, seen) end
  table.sort(keys)
  return table.concat(keys, ",")
end
local function make(k)
  if k == 0 then return { a = {}, b = { {}, {} } } end
  return { [1.5] = true, [true] = "x", [{ 1 }] = { 2 } }
end
for r = 1, 80 do show(make(r % 2)) end
print(show(make(0)), show(make(1)))
