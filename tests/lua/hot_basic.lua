-- `assert` and `type` in hot code: what they give, what they refuse, and what they are when they are something else.
local values = { 1, 2.5, "text", {}, print, true, false, coroutine.create(print), io.stdout, function() end }

local function kinds(rounds)
  local count = {}
  for i = 1, rounds do
    local kind = type(values[i % 12 + 1])
    count[kind] = (count[kind] or 0) + 1
  end
  local names = {}
  for name in pairs(count) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do names[i] = name .. "=" .. count[name] end
  return table.concat(names, " ")
end
print(kinds(1200))

-- Of what is known: numbers, tables that need not be made.
local function known(rounds)
  local right = 0
  for i = 1, rounds do
    local half = i / 2
    if type(i) == "number" and type(half) == "number" then right = right + 1 end
    if type({ x = i }) == "table" then right = right + 1 end
    if type(nil) == "nil" and type("") == "string" then right = right + 1 end
    if type(i, half, nil) ~= "table" then right = right + 1 end
  end
  return right
end
print(known(500))

-- The result of `assert` is what it got.
local function sum(list, rounds)
  local s = 0
  for i = 1, rounds do
    local x = assert(list[i % #list + 1], "no element")
    s = s + assert(x) * 2
    assert(i > 0)
    assert(i, "never", "seen")
  end
  return s
end
print(sum({ 1, 2, 3 }, 1000), sum({ 1.5, 2, 3 }, 1000), math.type(sum({ 1, 2 }, 10)))

local function first(t) return assert(t.point).x + assert(t.point, "no point").y end
local total = 0
for i = 1, 500 do total = total + first { point = { x = i, y = 1 } } end
print(total)

-- Several results, lists of arguments.
local function pair(a, b) return assert(a, b) end
local function count(...) return select("#", assert(...)) end
for i = 1, 300 do
  local a, b, c = assert(i, i + 1, i + 2)
  assert(a == i and b == i + 1 and c == i + 2)
  assert(pair(i, "x") == i and count(i, nil, nil) == 3)
end

-- What is not true.
local function checks(rounds, bad)
  local good, messages = 0, {}
  for i = 1, rounds do
    local ok, message = pcall(function(v) assert(v, "refused " .. i) good = good + 1 end, i % bad ~= 0)
    if not ok then messages[#messages + 1] = message end
  end
  return good, #messages, messages[1], messages[#messages]
end
print(checks(1000, 100))
print(checks(1000, 2))
local function plain(v) assert(v) return 1 end
for i = 1, 200 do plain(i) end
print(pcall(plain, false))
print(pcall(plain, nil))
print(select(2, pcall(assert)), select(2, pcall(type)))
local function object(v) assert(v, { code = 7 }) end
for i = 1, 200 do object(true) end
print(select(2, pcall(object, false)).code)

-- Tracebacks and positions are the interpreter's.
local function deep(n, v)
  if n > 0 then return (deep(n - 1, v)) end
  assert(v, "at the bottom")
  return n
end
for i = 1, 100 do deep(3, i) end
print(xpcall(deep, function(m) return (debug.traceback(m, 1):gsub("%[C%].-\n", "C\n"):match("^[^\n]*")) end, 3, nil))

-- The names are strings like any others.
local seen = {}
for i = 1, 300 do seen[type(i)] = i end
print(seen.number, next(seen))
print(("x"):rep(2) .. type(seen), #type(print), type(type(1)))

-- Somebody replaces them.
local function uses(v) return type(v), (assert(v)) end
for i = 1, 200 do uses(i) end
local own_type, own_assert = type, assert
type = function(v) return "my " .. own_type(v) end
print(uses(5))
assert = function(v) return -v end
print(uses(5))
local calls = 0
for i = 1, 300 do local _, v = uses(i) calls = calls + v end
print(calls)
type, assert = own_type, own_assert
for i = 1, 300 do local _, v = uses(i) calls = calls + v end
print(calls, uses("x"))
