-- Coroutines that resume each other as machine code: how many values go from one to the other, who takes them,
-- and what may lie between two turns.
local wrap, create, resume, yield = coroutine.wrap, coroutine.create, coroutine.resume, coroutine.yield
local unpack = table.unpack

-- As many values as are given, as many as are wanted, both ways.
local function giver(count)
  return function(...)
    local got = select("#", ...)
    while true do
      if count == 0 then got = select("#", yield())
      elseif count == 1 then got = select("#", yield(got))
      elseif count == 2 then got = select("#", yield(got, "b"))
      elseif count == 3 then got = select("#", yield(got, "b", "c"))
      else got = select("#", yield(got, nil, "c", "d", nil))
      end
    end
  end
end
for count = 0, 4 do
  local f, g = wrap(giver(count)), create(giver(count))
  local line = {}
  for i = 1, 300 do
    f()
    local a = f(i)
    local b, c = f(i, i)
    local d, e, h = f(i, i, nil)
    local many = select("#", f(unpack({}, 1, i % 7)))
    resume(g)
    local ok = resume(g, i)
    local ok2, x = resume(g, i, i)
    local ok3, y, z = resume(g, i, i, nil)
    local all = select("#", resume(g, unpack({}, 1, i % 5)))
    if i % 100 == 0 then
      line[#line + 1] = table.concat({ tostring(a), tostring(b), tostring(c), tostring(d), tostring(e), tostring(h), many,
        tostring(ok), tostring(ok2), tostring(x), tostring(ok3), tostring(y), tostring(z), all }, " ")
    end
  end
  print(count, table.concat(line, " | "))
end

-- Loops over generators, with one to four variables, over each other, and left early.
local function range(n) return wrap(function() for i = 1, n do yield(i) end end) end
local function pairs_of(source) return wrap(function() for v in source do yield(v, v * v, -v) end end) end
local sums = { 0, 0, 0, 0 }
for round = 1, 40 do
  for a in pairs_of(range(20)) do sums[1] = sums[1] + a end
  for a, b in pairs_of(range(20)) do sums[2] = sums[2] + b end
  for a, b, c, d in pairs_of(range(20)) do sums[3] = sums[3] + c; assert(d == nil) end
  for a, b in pairs_of(range(20)) do if a > round then break end sums[4] = sums[4] + b end
end
print(unpack(sums))

-- What a loop hands to its iterator arrives in the coroutine: the state, and the last value.
local seen = {}
local echo = wrap(function(s, c)
  for _ = 1, 200 do
    seen[#seen + 1] = tostring(s) .. ":" .. tostring(c)
    s, c = yield(#seen, s, c)
  end
end)
for i, s, c in echo, "state", 0 do
  if i % 50 == 0 then print(i, s, c, seen[i]) end
end

-- Yields at the end of a function: whoever called that gets what the resume brings.
local function last(v) return yield(v) end
local function adding(n)
  local total = 0
  for i = 1, n do
    local a, b = last(i)
    total = total + (a or 0) + (b or 0)
  end
  return "total", total
end
local co = create(adding)
local ok, v = resume(co, 300)
while coroutine.status(co) ~= "dead" do
  ok, v, w = resume(co, v, 1)
end
print(ok, v, w)
local function first(n) return yield(n) end
for i = 1, 200 do
  local f = create(first)
  assert(select(2, resume(f, i)) == i)
  local ok, a, b = resume(f, "x", i)
  assert(ok and a == "x" and b == i and coroutine.status(f) == "dead")
end

-- Stacks that move while somebody waits, collections, errors and protected calls between two turns.
local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
local function busy()
  local t = {}
  for i = 1, 400 do
    t[i % 10 + 1] = { i, tostring(i) }
    if i % 97 == 0 then deep(2000) end
    if i % 50 == 0 then collectgarbage("step") end
    local back = yield(i, t[i % 10 + 1][2])
    if back == "fail" then error({ i }) end
    local ok, e = pcall(function() local v = yield("inner " .. i) if v then error(v, 0) end return i end)
    if i % 100 == 0 then yield(tostring(ok) .. tostring(e)) end
  end
end
local b, turns, text = wrap(busy), 0, {}
local x, y = b()
while x do
  turns = turns + 1
  if turns % 131 == 0 then deep(3000) end
  if turns % 200 == 0 then text[#text + 1] = tostring(x) .. "/" .. tostring(y) end
  x, y = b(turns % 3 == 0 and "e" .. turns or nil)
end
print(turns, table.concat(text, " "))
local failing = create(busy)
resume(failing)
for i = 1, 60 do resume(failing) end
local ok, e = resume(failing, "fail")
print(ok, type(e), e and type(e) == "table" and e[1], coroutine.status(failing))

-- A hook that is set while the coroutine waits, and is gone again; and one of whoever resumes.
local function steps() local n = 0 while true do n = n + 1 yield(n) end end
local counted, lines = create(steps), 0
for i = 1, 100 do resume(counted) end
debug.sethook(counted, function() lines = lines + 1 end, "l")
for i = 1, 10 do resume(counted) end
debug.sethook(counted)
for i = 1, 100 do resume(counted) end
print(lines, select(2, resume(counted)))

-- Who resumes what does not wait.
local me
me = wrap(function()
  local n = 0
  while true do
    n = n + 1
    local ok, e = pcall(me)
    if n % 100 == 0 then yield(n, ok, e) else yield(n) end
  end
end)
for i = 1, 300 do
  local n, ok, e = me()
  if n % 100 == 0 then print(n, ok, e) end
end
local function trace() yield(debug.traceback("here")) end
local t = create(function() for i = 1, 100 do trace() end end)
local text
for i = 1, 50 do text = select(2, resume(t)) end
print((text:gsub("%S*machine_switching.lua", "file")))
print((debug.traceback(t, "there"):gsub("%S*machine_switching.lua", "file")))

-- Values for variables that are to be closed, and coroutines closed between two turns.
local closed = 0
local function guarded()
  local guard <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
  for i = 1, 100 do yield(i) end
end
for i = 1, 100 do
  local g = create(guarded)
  for _ = 1, i % 10 + 1 do resume(g) end
  if i % 2 == 0 then coroutine.close(g) else for _ = 1, 101 do resume(g) end end
end
print(closed)
