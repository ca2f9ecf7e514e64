-- assert and type in hot code.

local N = 300

local function values()
  local sum = 0
  for i = 1, N do
    local a = assert(i)
    local b, c, d = assert(i % 2 == 0 and "yes" or i, i + 1)
    local t = { assert(i, nil, i) }
    assert(d == nil)
    assert(a == i, "never", a)
    sum = sum + a + (b == "yes" and 1 or b) + c + #t + select("#", assert(i, nil)) + select("#", (assert(true)))
  end
  return sum
end
print(values())

local function tables()
  local last = { n = 0 }
  for i = 1, N do
    local t = assert({ n = last.n + i })
    local u, v = assert(t, last)
    assert(rawequal(u, t) and v == last)
    last = u
  end
  return last.n
end
print(tables())

local function fails(last, ...)
  local n = 0
  for i = 1, N do
    n = n + assert(i < last and i, ...)
  end
  return n
end
print(fails(N + 1), fails(N + 1, "x"))
print(pcall(fails, 100))
print(pcall(fails, 101, "a message"))
print(pcall(fails, 102, nil))
print(select("#", pcall(fails, 102, nil)))
print(pcall(fails, 103, 7))
local object = setmetatable({}, { __tostring = function() return "an object" end })
print(select(2, pcall(fails, 104, object)) == object)

local function often(k)
  local caught = 0
  for i = 1, N do
    local ok, e = pcall(assert, i % k ~= 0, "div")
    if not ok then caught = caught + #e end
    ok, e = pcall(function() local x = assert(i % k ~= 1 and i, "rem") return x + 1 end)
    caught = caught + (ok and e or 1000)
  end
  return caught
end
print(often(2), often(7), often(1000))
print(pcall(function() for i = 1, N do assert(i) end for i = 1, N do assert() end end))

-- What assert is may change.
do
  local assert = assert
  local function changing()
    local sum = 0
    for i = 1, N do
      if i == 200 then assert = function(v) return v * 2 end end
      sum = sum + assert(i)
    end
    return sum
  end
  print(changing())
end

-- type
local kinds = { 1, 1.5, "s", {}, print, function() end, true, false, coroutine.create(print), io.stdout, string.gmatch("a", "a"),
  setmetatable({}, { __name = "named", __index = function() return 1 end }) }
local function count(list, n)
  local found = {}
  for _ = 1, N do
    for i = 1, n do
      local name = type(list[i])
      found[name] = (found[name] or 0) + 1
      assert(type(name) == "string" and type(type) == "function" and type(i) == "number" and type(found) == "table")
    end
  end
  local names = {}
  for name, times in pairs(found) do names[#names + 1] = name .. "=" .. times end
  table.sort(names)
  return table.concat(names, " ")
end
print(count(kinds, #kinds))
print(count(kinds, #kinds + 2))

local function flat(t)
  if type(t) ~= "table" then return type(t) == "number" and t or 0 end
  local sum = 0
  for _, v in ipairs(t) do sum = sum + flat(v) end
  return sum
end
local total = 0
for _ = 1, N do total = total + flat { 1, { 2, { 3, "x" }, 4.5 }, true, { { {} } } } end
print(total)

local function number_of(x)
  local t = type(x)
  if t == "number" then return x elseif t == "string" then return #x elseif t == "nil" then return -1 end
  return 100
end
local s = 0
for i = 1, N do s = s + number_of(i) + number_of(i / 2) + number_of("abc") + number_of() + number_of(nil) + number_of({}) end
print(s)
print(pcall(function() for i = 1, N do type(i) end for i = 1, N do type() end end))
local function all() local t = { type(1), type("x"), type(nil), (type({})) } return select("#", type(1)), table.concat(t, ",") end
local line
for _ = 1, N do line = { all() } end
print(line[1], line[2])
local function tail(x) return type(x) end
for i = 1, N do line = tail(i % 2 == 0 and i or "s") end
print(line)
