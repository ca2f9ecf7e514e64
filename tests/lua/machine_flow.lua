-- Calls that leave machine code and come back: pcall, coroutines, functions of variable arguments, errors and closed variables on the way.

local function check(name, ...) print(name, ...) end

-- Protected calls that succeed, fail, are nested, and change what they return in mid-loop.
do
  local function add(a, b) return a + b, a end
  local function nested(a) local _, s = pcall(add, a, 1) return s end
  local function fails(a) if a % 7 == 0 then error({ a }) end if a % 11 == 0 then error("text " .. a) end return a end
  local function tail(a) return pcall(fails, a) end
  local function handler(e) return type(e) == "table" and "table " .. e[1] or "handled " .. e end
  local sum, texts = 0, {}
  for i = 1, 400 do
    local ok, s, a = pcall(add, i, 1)
    assert(ok and s == a + 1)
    local ok2, t = pcall(nested, i)
    local ok3, u = xpcall(add, handler, t, 1)
    assert(ok2 and ok3)
    sum = sum + u
    local good, value = tail(i)
    if not good then value = type(value) == "table" and value[1] or #value end
    sum = sum + value
    good, value = xpcall(fails, handler, i)
    if not good then texts[#texts + 1] = value end
    good, value = pcall(pcall, fails, i)
    assert(good and (value == true or value == false))
    assert(select("#", pcall(add, i, i)) == 3)
  end
  check("pcall", sum, #texts, texts[1], texts[2], texts[#texts])
  -- Another number of results, another type, no function at all.
  local function call(f, n)
    local results = {}
    for i = 1, n do
      local ok, a, b = pcall(f, i)
      results[#results + 1] = tostring(ok) .. tostring(a) .. tostring(b)
    end
    return table.concat(results, " ", n - 1)
  end
  call(add, 100)
  check("others", call(function(a) return a end, 50), call(function() end, 50), call(nil, 50), call(math.abs, 50), call(print and setmetatable({}, { __call = function(_, x) return x, -x end }), 50))
  check("names", pcall(function() local t = {} for i = 1, 50 do t = i < 50 and t or nil; t.x = i end end))
  check("add", call(add, 50))
end

-- Functions of variable arguments.
do
  local function sum(...)
    local a, b, c = ...
    local t = { ... }
    return (a or 0) + (b or 0) + (c or 0) + #t, select("#", ...)
  end
  local function forward(_, ...) return sum(...) end
  local function same(...) return ... end
  local function one(...) return (...) end
  local function none(...) local x <const> = ... return end
  local function last(n, ...) if n == 0 then return ... end return last(n - 1, n, ...) end
  local function open(...) return same(1, ...), same(...) end
  local total = 0
  for i = 1, 300 do
    local x, n = forward(i, 1, 2, 3)
    local p, q, r = same(i, i + 0.5)
    total = total + x + n + p + q + (r or 0)
    x, n = forward(i)
    total = total + x + n + one(i, nil) + (one() or 1) + (none(i) or 2)
    total = total + select("#", last(i % 9)) + select("#", open(i, i)) + (select(2, open(i, i)))
    local t = { same(i, i, nil, i) }
    total = total + t[4]
  end
  check("varargs", total, last(5), open("a", "b"))
  -- Upvalues of parameters, and extra arguments behind them.
  local function keep(a, ...)
    local n = select("#", ...)
    return function(x) a = a + x return a, n end
  end
  local k = {}
  for i = 1, 100 do k[i] = keep(i, i, i); k[i](1) end
  check("kept", k[50](1))
  -- Many, so that the stack moves.
  local big = {}
  for i = 1, 3000 do big[i] = i end
  local count = 0
  for i = 1, 60 do count = count + select("#", same(table.unpack(big, 1, i * 50))) end
  check("many", count)
  check("too many", (select(2, pcall(function() return last(300, table.unpack(big)) end))))
  local function deep(n, ...) if n == 0 then return select("#", ...) end local r = deep(n - 1, n, ...) return r end
  check("deep", deep(150), pcall(deep, 1500, 1) )
end

-- Coroutines: in loops, in calls in loops, in protected calls, in metamethods, dropped, closed, failing.
do
  local function counter(n)
    return coroutine.wrap(function(a)
      local f = 0.5
      for i = 1, n do f = f + i; local z = coroutine.yield(i, f); a = a + z end
      return "done", a
    end)
  end
  local c = counter(200)
  local sum = c(0)
  for i = 1, 199 do local v, f = c(i) sum = sum + v + f end
  check("yield", sum, c(1000))
  check("dead", pcall(c))
  local function walk(n) if n > 0 then walk(n - 1) coroutine.yield(n) walk(n - 1) end return n end
  local q = 0
  for v in coroutine.wrap(function() walk(9) end) do q = q * 3 % 1000003 + v end
  check("recursive", q)
  -- What comes back changes its type; the variables around keep theirs, or do not.
  local function types(list)
    local co = coroutine.create(function()
      local s, n = 0, 0
      while true do
        local v = coroutine.yield(s)
        n = n + 1
        if v == nil then return n, s end
        s = s + v
      end
    end)
    coroutine.resume(co)
    local out = {}
    for i = 1, #list do out[#out + 1] = select(2, coroutine.resume(co, list[i])) end
    out[#out + 1] = tostring(select(2, coroutine.resume(co)))
    return out[#out - 1], out[#out]
  end
  local list = {}
  for i = 1, 150 do list[i] = i end
  check("ints", types(list))
  list[140] = 0.25
  check("float", types(list))
  list[145] = "7"
  check("text", types(list))
  list[146] = {}
  check("table", (select(2, types(list))))
  -- Across pcall, metamethods and iterators.
  local mt = { __add = function(a, b) return coroutine.yield(a.v) + b end, __index = function(_, k) return coroutine.yield(k) end }
  local function through()
    local s = 0
    for i = 1, 60 do
      local ok, v = pcall(function(x) local y = coroutine.yield(x) if y % 10 == 0 then error("ten", 0) end return y end, i)
      s = s + (ok and v or #v)
      s = s + (setmetatable({ v = i }, mt) + 1)
      s = s + setmetatable({}, mt)["k" .. i]
      for a in function(_, x) local y = coroutine.yield(x) if y % 5 == 0 then return nil end return y end, nil, i do s = s + a end
    end
    return "end", s
  end
  local co = coroutine.create(through)
  local n, kinds = 0, {}
  local ok, what, result
  local feed = 0
  repeat
    feed = feed + 1
    ok, what, result = coroutine.resume(co, feed)
    assert(ok, what)
    kinds[type(what)] = (kinds[type(what)] or 0) + 1
    n = n + 1
  until coroutine.status(co) == "dead"
  check("through", n, what, result, kinds.number, kinds.string)
  -- Dropped and closed, with variables to be closed.
  local log = {}
  local function closing(n)
    return coroutine.create(function()
      local x <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = n .. tostring(e) end })
      for i = 1, 10 do coroutine.yield(i) end
      error("end", 0)
    end)
  end
  for i = 1, 60 do
    local c = closing(i)
    for _ = 1, i % 13 do coroutine.resume(c) end
    if i % 2 == 0 then coroutine.close(c) end
  end
  check("closed", #log, log[1], log[#log])
  collectgarbage()
  -- A coroutine that resumes another that resumes another.
  local function chain(n)
    if n == 0 then for i = 1, 1e9 do coroutine.yield(i) end end
    local inner = coroutine.wrap(chain)
    inner(n - 1)
    local first = 0
    while true do first = inner() coroutine.yield(first) end
  end
  local outer = coroutine.wrap(chain)
  outer(5)
  local s = 0
  for _ = 1, 100 do s = s + outer() end
  check("chain", s)
  -- Who resumes itself, a dead one, one that runs.
  local me
  me = coroutine.create(function() for i = 1, 30 do local ok, e = coroutine.resume(me) assert(not ok) if i == 30 then return e end coroutine.yield(i) end end)
  local e
  while coroutine.status(me) ~= "dead" do _, e = coroutine.resume(me) end
  check("itself", e)
end

-- Errors through frames with variables to be closed; tracebacks; levels.
do
  local order = {}
  local function closer(name) return setmetatable({}, { __close = function(_, e) order[#order + 1] = name .. ":" .. tostring(e) end }) end
  local function inner(i) local a <close> = closer("inner") if i % 2 == 0 then error("even", 0) end return i end
  local function outer(i) local b <close> = closer("outer") local r = inner(i) return r + 1 end
  local s = 0
  for i = 1, 100 do
    local ok, v = pcall(outer, i)
    s = s + (ok and v or #v)
  end
  check("close", s, #order, order[1], order[2], order[3], order[4])
  local function level(n) if n == 0 then error("deep") end local r = level(n - 1) return r end
  local text
  for _ = 1, 50 do text = select(2, xpcall(level, function(e) return e .. "|" .. select(2, debug.traceback("t"):gsub("\n", "")) end, 5)) end
  check("traceback", text)
  local function names(t) for i = 1, 40 do if i == 40 then t = nil end local _ = t.x end end
  check("field of nil", pcall(names, {}))
  local function over(n) return 1 + over(n + 1) end
  for _ = 1, 3 do check("overflow", (select(2, pcall(over, 1)):gsub("^.-:%d+: ", ""):sub(1, 14))) end
  check("handler overflow", (select(2, xpcall(over, function(e) return "h " .. e:gsub("^.-:%d+: ", ""):sub(1, 14) end, 1))))
  local function depth(n) if n == 0 then return 0 end return 1 + depth(n - 1) end
  check("levels", depth(150000))
  local function nest(n) if n == 0 then return "bottom" end local ok, v = pcall(nest, n - 1) return v end
  check("nested", nest(150), (tostring(nest(250)):gsub("^.-:%d+: ", ""):gsub("^error in ", "")))
end

-- A hook in the middle, and variables assigned from without.
do
  local seen = 0
  local function work(n) local s = 0 for i = 1, n do local ok, v = pcall(math.abs, -i) s = s + v end return s end
  work(100)
  local function change(n)
    local s = 0
    for i = 1, n do
      s = s + (select(2, pcall(function() if i == n - 5 then debug.sethook(function() seen = seen + 1 end, "c") end return i end)))
      if i == n then debug.sethook() end
    end
    return s
  end
  check("hook", change(100), seen > 5)
  local function set(n)
    local s = 0
    for i = 1, n do
      pcall(function() if i == 80 then debug.setlocal(3, 2, 1000000) end end)
      s = s + 1
    end
    return s
  end
  check("setlocal", set(100))
end
