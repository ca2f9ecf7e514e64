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

-- A function that is built in place goes on with functions of Lua, then with some of the library as well, and then with
-- what is no function.
do
  local function text(v) return "'" .. v .. "'" end
  local by_type = { string = text, number = text, boolean = tostring, userdata = 1 }
  local function write(v)
    local f = by_type[type(v)]
    if f then return f(v) end
    error("no " .. type(v), 0)
  end
  local function all(t)
    local out = {}
    for i = 1, #t do out[#out + 1] = write(t[i]) end
    return table.concat(out, ",")
  end
  by_type.table = all
  local few, more = { "a", 1, "b", 2 }, { "a", 1, true, { 2.5, "b" }, false }
  local n = 0
  for round = 1, 4 do
    for i = 1, 200 do n = n + #all(few) end
    for i = 1, 800 do n = n + #all(more) end
    print(n, all(few), all(more), pcall(all, { print }))
    by_type["function"] = setmetatable({}, { __call = function(_, f) return f == print and "print" or "other" end })
    print(pcall(all, { print, 1, next }))
    by_type["function"] = 3
    print(pcall(all, { print }))
    by_type["function"] = nil
  end
end
