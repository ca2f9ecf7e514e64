-- Protected calls in hot code: results of any number, errors that come late, at any depth, with and without handlers, yields, tracebacks, and how deep they may be nested.
local function add(a, b) return a + b, a end
local function none() end
local function id(x) return x end
local function many(a) return a, a + 1, a + 2, a + 3 end
local function extra(...) return select("#", ...), ... end
local function two(a, b, c) return a, b, c end

-- Results: as many as wanted, fewer, none.
do
  local sum = 0
  for i = 1, 3000 do
    local ok, s, a = pcall(add, i, 1)
    local ok2 = pcall(none)
    local ok3, n = pcall(none)
    local ok4, x, y, z, w, v = pcall(many, i)
    pcall(id, i)
    local ok5, count, first = pcall(extra, i, nil, 3)
    local ok6, p, q, r = pcall(two, i)
    assert(ok and ok2 and ok3 and ok4 and ok5 and ok6)
    assert(a == i and n == nil and v == nil and count == 3 and first == i and p == i and q == nil and r == nil)
    sum = sum + s + x + y + z + w
  end
  print("results", sum)
end

-- A handler that is not needed, and one that is.
do
  local seen = 0
  local function handler(e) seen = seen + 1 return "handled: " .. tostring(e) end
  local sum = 0
  for i = 1, 3000 do
    local ok, s = xpcall(add, handler, i, 1)
    local ok2, n = xpcall(none, handler)
    assert(ok and ok2 and n == nil)
    sum = sum + s
  end
  print("handler", sum, seen)
  local function risky(i) if i % 997 == 0 then error("at " .. i) end return i end
  local failed = {}
  for i = 1, 4000 do
    local ok, v = xpcall(risky, handler, i)
    if not ok then failed[#failed + 1] = v end
  end
  print(#failed, failed[1], failed[#failed], seen)
end

-- Errors that come when all has been compiled: of operators, of error with values, at depth.
do
  local function divide(a, b) return a // b end
  local function inner(t, i) return t[i].x + 1 end
  local function outer(t, i) return (inner(t, i)) * 2 end
  local t = {}
  for i = 1, 3000 do t[i] = { x = i } end
  t[2500].x = nil
  t[2700] = false
  local failures = {}
  local sum = 0
  for i = 1, 3000 do
    local ok, v = pcall(outer, t, i)
    if ok then sum = sum + v else failures[#failures + 1] = v end
    local ok2, w = pcall(divide, i, i == 2800 and 0 or 3)
    if ok2 then sum = sum + w else failures[#failures + 1] = w end
  end
  print("late", sum)
  for _, f in ipairs(failures) do print(f) end
  local object = setmetatable({}, { __tostring = function() return "an object" end })
  local function raise(i) if i == 2990 then error(object) elseif i == 2991 then error() end return i end
  for i = 1, 3000 do
    local ok, v = pcall(raise, i)
    if not ok then print(i, tostring(v), v == object) end
  end
end

-- Nested ones: the inner fails, the outer goes on; and the other way round.
do
  local function leaf(i) if i % 1000 == 0 then error("leaf " .. i, 0) end return i end
  local function middle(i) local ok, v = pcall(leaf, i) if not ok then return -1, v end return v end
  local function top(i) local v, why = middle(i) if i % 1500 == 0 then error("top " .. i, 0) end return v, why end
  local sum, whys = 0, {}
  for i = 1, 6000 do
    local ok, v, why = pcall(top, i)
    if ok then sum = sum + v else whys[#whys + 1] = v end
    if why then whys[#whys + 1] = why end
  end
  print("nested", sum, table.concat(whys, "; "))
end

-- Who looks at the frames sees them all.
do
  local function see(i)
    if i == 2500 then
      local names = {}
      for level = 1, 10 do
        local info = debug.getinfo(level, "Slnt")
        if not info then break end
        names[#names + 1] = ("%s:%d %s"):format(info.what, info.currentline, info.name or "?")
      end
      return table.concat(names, "\n")
    end
    return i
  end
  local function around(i) local ok, v = pcall(see, i) return v end
  for i = 1, 3000 do
    local ok, v = xpcall(around, print, i)
    if type(v) == "string" then print(v) end
  end
  local function trace(i) if i == 2600 then return (debug.traceback("here", 1):gsub("\n%s*%[C%]: in %?", "")) end return "" end
  for i = 1, 3000 do
    local ok, v = pcall(trace, i)
    if v ~= "" then print(v) end
  end
  local function fails(i) local t = i ~= 2700 and { i } or nil return t[1] end
  local function handler(e) return (debug.traceback(e, 1):gsub("\n%s*%[C%]: in %?", "")) end
  for i = 1, 3000 do
    local ok, v = xpcall(fails, handler, i)
    if not ok then print(v) end
  end
end

-- Coroutines that yield within, and go on.
do
  local function step(i) if i % 500 == 0 then return coroutine.yield(i) end return i end
  local function run(n)
    local sum = 0
    for i = 1, n do
      local ok, v = pcall(step, i)
      assert(ok)
      sum = sum + v
    end
    return sum
  end
  local co = coroutine.wrap(run)
  local v = co(3000)
  local yields = 0
  while v % 500 == 0 and v <= 3000 and yields < 6 do yields = yields + 1 v = co(-1) end
  print("yields", yields, v)
  local function fail(i) if i == 2000 then coroutine.yield "before" error "after" end return i end
  local co2 = coroutine.create(function()
    local failures = 0
    for i = 1, 3000 do
      local ok, v = pcall(fail, i)
      if not ok then failures = failures + 1 print(v) end
    end
    return failures
  end)
  print(coroutine.resume(co2))
  print(coroutine.resume(co2))
end

-- What is to be closed is closed, with the error.
do
  local log = {}
  local function use(i)
    local r <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = e and "failed" or nil end })
    if i == 2222 then error "x" end
    return i
  end
  local sum = 0
  for i = 1, 3000 do
    local ok, v = pcall(use, i)
    if ok then sum = sum + v end
  end
  print("closed", sum, #log, log[1])
end

-- How deep they may be nested, and that all counts are right afterwards.
do
  local function deep(n) local ok, v = pcall(id, n) if n == 0 then return 0 end local ok2, w = pcall(deep, n - 1) return ok2 and w + 1 or w end
  for i = 1, 300 do assert(deep(20) == 20) end
  local reached = 0
  local function endless(n) reached = n local ok, e = pcall(endless, n + 1) if not ok then error(e, 0) end return e end
  for _ = 1, 3 do
    local ok, e = pcall(endless, 1)
    print(ok, reached > 150 and reached < 250, (tostring(e):gsub("^.-: ", "")))
  end
  for i = 1, 300 do assert(deep(20) == 20) end
  print "counted"
end

-- Other functions than before, other natives than `pcall`.
do
  local function one(i) return i + 1 end
  local function other(i) return i + 2 end
  local sum = 0
  local protected = pcall
  for i = 1, 6000 do
    local f = i > 4000 and other or one
    if i == 5000 then protected = function(f, ...) return "mine", f(...) end end
    local how, v = protected(f, i)
    if i == 5500 then print("other", how) end
    sum = sum + v
  end
  print("others", sum)
  local not_functions = 0
  local callable = setmetatable({}, { __call = function(_, i) return i end })
  for i = 1, 4000 do
    local f = one
    if i == 3000 then f = nil elseif i == 3001 then f = callable elseif i == 3002 then f = math.abs end
    local ok, v = pcall(f, i)
    if not ok then not_functions = not_functions + 1 print(v) end
  end
  print(not_functions)
end

-- Numbers that are in registers, and objects, on both sides of a failure.
do
  local function work(t, i, x) t.n = t.n + 1 if i == 2048 then error { code = i } end return x * 0.5 + i end
  local function run()
    local t = { n = 0 }
    local a, b, c = 0, 0.5, "s"
    for i = 1, 3000 do
      a = a + i
      local ok, v = pcall(work, t, i, b)
      if ok then b = v % 17 else a = a + v.code c = c .. v.code end
    end
    return a, b, c, t.n
  end
  print("registers", run())
end
