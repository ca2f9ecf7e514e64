-- Coroutines that resume each other where all of them are hot: what is remembered of where one goes on has to
-- end with whatever changes that.
local create, wrap, yield, resume = coroutine.create, coroutine.wrap, coroutine.yield, coroutine.resume
local N = 300

-- Few and many values, both ways, and fewer or more than are wanted.
do
  local co = create(function(...)
    local n = select("#", ...)
    while true do
      local a, b, c = yield(n, n + 1, n + 2)
      n = (a or 0) + (b or 0) + (c or 0)
    end
  end)
  local sum = 0
  for i = 1, N do
    local ok, a, b, c, d = resume(co, i, i + 1)
    assert(ok and d == nil)
    sum = sum + a + b * 2 + c * 3
  end
  print("values", sum)
  local many = create(function(...)
    local t = { ... }
    for i = 1, N do t = { yield(table.unpack(t, 1, i % 13)) } end
    return #t
  end)
  local count, last = 0, { resume(many, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) }
  for i = 2, N do
    local got = { resume(many, i, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) }
    count = count + #got
    last = got
  end
  print("many", count, #last, select("#", resume(many)), coroutine.status(many))
end

-- The same place and the same frame, but another function each time.
do
  local function body(k) return function() for i = 1, 3 do yield(k * 10 + i) end end end
  local bodies = {}
  for k = 1, 4 do bodies[k] = body(k) end
  local co = wrap(function() while true do for k = 1, 4 do bodies[k]() end end end)
  local sum = 0
  for i = 1, N do sum = sum * 3 % 100003 + co() end
  print("functions", sum)
  local texts = {}
  for k = 1, 4 do texts[k] = load("local yield, k = coroutine.yield, " .. k .. " return function() yield(k) yield(k + 1) end")() end
  co = wrap(function() while true do for k = 1, 4 do texts[k]() end end end)
  sum = 0
  for i = 1, N do sum = sum * 3 % 100003 + co() end
  print("chunks", sum)
end

-- Recursion that yields at each depth, and functions that return to interpreted and to compiled callers.
do
  local function walk(n) if n > 0 then walk(n - 1) yield(n) walk(n - 1) end end
  local s, k = 0, 0
  for r = 1, 5 do for v in wrap(function() walk(6) end) do s, k = s + v * (k % 7), k + 1 end end
  print("walk", s, k)
  local function await(x) return yield(x) end
  local function read(x) local r = await(x) return r + 1 end
  local function several(...) local r = read(...) return r, select("#", ...) end
  local function guarded(x) local ok, a, b = pcall(several, x, x, x) assert(ok) return a + b end
  local function closing(x) local c <close> = setmetatable({}, { __close = function() s = s + 1 end }) return (read(x)) end
  local plus = setmetatable({}, { __add = function(_, x) return read(x) end })
  local co = create(function(x)
    local sum = 0
    for i = 1, N do sum = sum + read(i) + guarded(i) + closing(i) + (plus + i) end
    return sum
  end)
  local sent, ok, v = 0, resume(co, 1)
  while coroutine.status(co) ~= "dead" do sent = sent + 1 ok, v = resume(co, v * 2) end
  print("helpers", ok, v, sent, s)
end

-- Closed, failed, and finished between two resumes.
do
  local closed, failed = 0, 0
  for i = 1, N do
    local co = create(function() while true do yield(i) if i % 3 == 0 then error("e" .. i, 0) end end end)
    resume(co) resume(co)
    if i % 2 == 0 then
      if coroutine.close(co) then closed = closed + 1 else failed = failed + 1 end
    end
    local ok, what = resume(co)
    if not ok then failed = failed + #what end
  end
  print("ends", closed, failed)
end

-- A stack that grows deep, and shrinks when it is collected, while the coroutine yields at the same place.
do
  local function deep(n) if n > 0 then return 1 + deep(n - 1) end return 0 end
  local co = wrap(function(n) while true do n = yield(n > 0 and deep(n) or 0) end end)
  local sum = 0
  for i = 1, 60 do
    sum = sum + co(i % 10 == 0 and 2000 or 1)
    if i % 10 == 5 then collectgarbage() end
  end
  print("deep", sum)
  -- The resumer's stack grows while what it has resumed waits.
  local inner = wrap(function() local i = 0 while true do i = i + 1 yield(i) end end)
  local outer = wrap(function() while true do local v = inner() yield(v + (v % 20 == 0 and deep(3000) or 0)) end end)
  sum = 0
  for i = 1, 100 do sum = sum + outer() if i % 25 == 0 then collectgarbage() end end
  print("resumer", sum)
end

-- Whoever looks: hooks of the coroutine and of the resumer, variables that are assigned, tracebacks.
do
  local co = create(function() local x = 0 while true do x = x + 1 yield(x) end end)
  local lines, got = 0, 0
  for i = 1, N do
    if i == 100 then debug.sethook(co, function() lines = lines + 1 end, "l") end
    if i == 120 then debug.sethook(co) end
    local ok, v = resume(co)
    got = got + v
  end
  print("hooks", lines > 0, got)
  print("traceback", (debug.traceback(co):gsub("%d+", "#")))
end
do
  local co = create(function() local x = 0 while true do x = x + 1 yield(x) end end)
  local sum = 0
  for i = 1, N do
    local ok, v = resume(co)
    sum = sum + v
    if i == 200 then
      -- The first local variable of the function that has called yield.
      assert(debug.setlocal(co, 1, 1, 1000) == "x")
    end
  end
  print("assigned", sum)
end

-- Coroutines that are resumed by others than before, and by themselves in vain.
do
  local shared = create(function() local i = 0 while true do i = i + 1 yield(i) end end)
  local by = { wrap(function() while true do yield(select(2, resume(shared))) end end),
    wrap(function() while true do local ok, v = resume(shared) yield(v * 2) end end),
    function() return select(2, resume(shared)) * 3 end }
  local sum = 0
  for i = 1, N do sum = sum + by[i % 3 + 1]() end
  print("shared", sum)
  local me
  me = wrap(function() for i = 1, N do local ok, e = pcall(me) yield(e) end end)
  local first = me()
  for i = 2, N do assert(me() == first) end
  print("itself", first)
end
