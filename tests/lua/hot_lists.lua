-- Constructors that end in a list of values, `{...}` and `{f()}`, in functions that get hot: none, few, many,
-- with nil, of one kind and of several.
local function pack(...) return { ... } end
local function behind(a, ...) return { a, a + 1, ... } end
local function named(...) return { n = select("#", ...), ... } end
local function several(n)
  if n == 0 then return end
  if n == 1 then return 1 end
  if n == 2 then return 1, 2.5 end
  if n == 3 then return "a", nil, "c" end
  return 1, 2, 3, nil
end
local function called(n) return { several(n) } end
local function last(n) return { n, n * 2, several(n) } end
local function spread(t) return { table.unpack(t) } end

local function show(t)
  local most = 0
  for k in pairs(t) do
    if math.type(k) == "integer" and k > most then most = k end
  end
  local out = {}
  for i = 1, most do out[i] = tostring(t[i]) end
  return table.concat(out, " ") .. " of " .. most .. (t.n and " n " .. t.n or "")
end

local many = {}
for i = 1, 100 do many[i] = i end

for round = 1, 400 do
  local lists = {
    pack(), pack(round), pack(1, 2, 3), pack(1.5, 2.5), pack(true, false), pack("x", round, 1.5),
    pack(nil, 1), pack(1, nil), pack(nil), pack({}, nil, 3) and pack(round, nil, 3),
    behind(round), behind(round, "y"), behind(1.5, nil, 2),
    named(), named(1), named(nil, nil, 3), named("a", "b"),
    called(0), called(1), called(2), called(3), called(4),
    last(0), last(1), last(2), last(3), last(4),
    spread({}), spread({ 1, 2, 3 }), spread({ "a", 2 }),
  }
  for _, t in ipairs(lists) do
    -- They can be written to like any other.
    local n = #t
    t[#t + 1] = round
    t[#t + 1] = "end"
    t[1] = t[1] or false
  end
  local all = pack(table.unpack(many))
  assert(#all == 100 and all[100] == 100)
  all[101] = "more"
  assert(#all == 101 and all[64] == 64 and all[65] == 65)
  if round == 1 or round == 400 then
    for i, t in ipairs(lists) do print(round, i, show(t)) end
  end
end

-- What is given is copied: the list is not the arguments.
local function keep(...)
  local t = { ... }
  t[1] = "changed"
  return t, ...
end
for i = 1, 300 do
  local t, a, b = keep(i, i + 1)
  assert(t[1] == "changed" and t[2] == i + 1 and a == i and b == i + 1)
end

-- The table is made before what is in it, which may look at the other one, fail, or yield.
local co = coroutine.wrap(function()
  local function give(i) coroutine.yield(i) return i, i * 2 end
  for i = 1, 200 do
    local t = { i, give(i) }
    assert(#t == 3 and t[3] == i * 2)
  end
  return "over"
end)
for i = 1, 200 do assert(co() == i) end
print(co())
local function bad(n) if n % 7 == 0 then error("seven", 0) end return n, n end
local failed = 0
for i = 1, 350 do
  local ok, t = pcall(function() return { bad(i) } end)
  if ok then assert(#t == 2 and t[2] == i) else failed = failed + 1 assert(t == "seven") end
end
print(failed)

-- `xpcall`, in functions that get hot: results, handlers, arguments.
local function half(n)
  if n % 2 == 1 then error({ odd = n }) end
  return n // 2, "even"
end
local function seen(e) return type(e) == "table" and e.odd or e end
local function try(n, ...) return xpcall(half, seen, n, ...) end
local sum, odd = 0, 0
for i = 1, 500 do
  local ok, r, s = try(i, nil, 3)
  if ok then
    sum = sum + r
    assert(s == "even")
  else
    odd = odd + r
    assert(s == nil)
  end
end
print(sum, odd)
-- A handler that is no function of Lua, or fails itself, a function that is none, or is missing.
for i = 1, 300 do
  local ok, e = xpcall(half, tostring, 2)
  assert(ok and e == 1)
  ok, e = xpcall(half, type, 1)
  assert(not ok and e == "table")
  ok, e = xpcall(nil, seen)
  assert(not ok and e == "attempt to call a nil value")
  ok, e = xpcall(math.floor, seen, 2.5)
  assert(ok and e == 2)
  ok, e = pcall(xpcall, half)
  assert(not ok and e:find("bad argument #2 to 'xpcall'", 1, true), e)
end
local depth = 0
local ok, e = xpcall(function() error("first") end, function(m)
  depth = depth + 1
  if depth < 5 then error("again") end
  return "given up"
end)
print(ok, type(e), depth)
-- In a coroutine that yields across it.
local steps = coroutine.wrap(function()
  for i = 1, 200 do
    local ok, r = xpcall(function(n) coroutine.yield(n) if n % 3 == 0 then error("three", 0) end return n end, seen, i)
    assert(ok == (i % 3 ~= 0) and (ok and r == i or r == "three"))
  end
  return "done"
end)
for i = 1, 200 do assert(steps() == i) end
print(steps())
-- Deeply nested.
local function nest(n) if n == 0 then error("bottom", 0) end return select(2, xpcall(nest, seen, n - 1)) end
for i = 1, 100 do assert(nest(i) == "bottom") end
print(select("#", xpcall(nest, seen, 50)))
