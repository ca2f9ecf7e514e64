-- Generic loops over natives and coroutines, often enough to become machine code.
local wrap, yield = coroutine.wrap, coroutine.yield

-- Iterators of strings: one value, several, positions, none.
local text = ("alpha=1, beta = 22; gamma=333 "):rep(3)
local function words(s)
  local n, bytes = 0, 0
  for w in s:gmatch("%a+") do n, bytes = n + 1, bytes + #w end
  return n, bytes
end
local function fields(s)
  local sum = 0
  for k, v, at, none in s:gmatch("(%w+)%s*=%s*(%d+)()") do
    assert(none == nil)
    sum = sum + #k * tonumber(v) + at
  end
  return sum
end
local n, bytes, sum = 0, 0, 0
for i = 1, 300 do
  local a, b = words(text)
  n, bytes, sum = n + a, bytes + b, sum + fields(text) % (i + 1)
end
print(n, bytes, sum)

-- Codes of a text, and a native with several values.
local codes = 0
for _ = 1, 200 do for p, c in utf8.codes("aäöü€z") do codes = codes + p * c end end
print(codes)

-- Chains of coroutines.
local function range(k) return wrap(function() for i = 1, k do yield(i) end end) end
local function keep(source, p) return wrap(function() for v in source do if p(v) then yield(v) end end end) end
local function scale(source, k) return wrap(function() for v in source do yield(v * k, v) end end) end
local total, count = 0, 0
for round = 1, 20 do
  for tripled, v in scale(keep(range(300), function(v) return v % 2 == round % 2 end), 3) do
    assert(tripled == 3 * v)
    total, count = total + tripled, count + 1
  end
end
print(total, count)

-- Recursive generators, whose results pass through all levels.
local function tree(d) return d > 0 and { tree(d - 1), d, tree(d - 1) } or false end
local function visit(t)
  return wrap(function()
    if not t then return end
    for v in visit(t[1]) do yield(v) end
    yield(t[2])
    for v in visit(t[3]) do yield(v) end
  end)
end
local visited, depth = 0, 0
for _ = 1, 10 do for d in visit(tree(6)) do visited, depth = visited + 1, depth + d end end
print(visited, depth)

-- The iterator is another thing each time.
local function count_of(f, s, c)
  local k = 0
  for v in f, s, c do k = k + 1; if k > 50 then break end end
  return k
end
local function lua_step(limit, i) i = i + 1; if i <= limit then return i end end
local callable = setmetatable({}, { __call = function(_, limit, i) return lua_step(limit, i) end })
local kinds = 0
for i = 1, 400 do
  kinds = kinds + count_of(("a b c"):gmatch("%a"))
  if i % 2 == 0 then kinds = kinds + count_of(range(4)) end
  if i % 3 == 0 then kinds = kinds + count_of(lua_step, 5, 0) end
  if i % 5 == 0 then kinds = kinds + count_of(callable, 6, 0) end
  if i % 7 == 0 then kinds = kinds + count_of(next, { 1, 2, x = 3 }) end
  if i % 11 == 0 then kinds = kinds + count_of(math.floor, 3) end
end
print(kinds)

-- Errors in iterators are those of the place; what is to be closed is closed.
local closed = 0
local closing = setmetatable({}, { __close = function() closed = closed + 1 end })
local function failing(k)
  return wrap(function()
    for i = 1, k do yield(i) end
    error("no more", 0)
  end)
end
local function sum_until_error(k)
  local s = 0
  local ok, message = pcall(function()
    for v in failing(k), nil, nil, closing do s = s + v end
  end)
  return s, ok, message
end
local sums = 0
for i = 1, 200 do
  local s, ok, message = sum_until_error(i % 7)
  assert(not ok and message:find("no more", 1, true))
  sums = sums + s
end
print(sums, closed)
print(pcall(function() local f = range(0); f(); for _ in f do end end))
print(pcall(function() for _ in utf8.codes("ab\xff") do end end))
print(pcall(function() for i = 1, 100 do for _ in (i < 100 and range(2) or 7) do end end end))

-- Loops that yield in their body, within a coroutine that is itself stepped through.
local function squares(s) return wrap(function() for d in s:gmatch("%d+") do yield(d * d) end end) end
local all = 0
for _ = 1, 100 do for q in squares("1 2 3 4 55") do all = all + q end end
print(all)

-- Garbage is made, and collected, in iterators.
local kept = {}
for i = 1, 200 do
  for w in wrap(function() for j = 1, 5 do yield({ i, tostring(j), { j } }) end end) do
    kept[#kept % 50 + 1] = w
    if i % 50 == 0 then collectgarbage("step") end
  end
end
local check = 0
for _, w in ipairs(kept) do check = check + w[1] + #w[2] + w[3][1] end
print(#kept, check)

-- Hooks see the calls of iterators, whatever ran before.
local calls = 0
local function loop() for _ in ("abc"):gmatch(".") do end end
for _ = 1, 200 do loop() end
debug.sethook(function() calls = calls + 1 end, "c")
loop()
debug.sethook()
print(calls)

-- What is read from a file by loops, and numerals.
local name = os.tmpname()
local file = assert(io.open(name, "w"))
for i = 1, 500 do file:write(i, " ", -i / 4, "\n") end
file:close()
local lines, length = 0, 0
for _ = 1, 5 do for line in io.lines(name) do lines, length = lines + 1, length + #line end end
local ints, quarters = 0, 0
for a, b in io.lines(name, "n", "n") do ints, quarters = ints + a, quarters + b end
print(lines, length, ints, quarters)
file = assert(io.open(name, "w"))
file:write(" 12 -3.5\t+7 0x1F .5 7. 1e2 1.5E-1 0x.8p1 00012 - 5 1.2.3 --4 ", ("9"):rep(210), " 8")
file:close()
file = assert(io.open(name))
for _ = 1, 10 do io.write(tostring(file:read("n")), " ") end
print(file:read("n"), file:read("n"))
print(file:read("n"), file:read("n"), file:read("n"))
print(file:read("l"))
file:close()
os.remove(name)
