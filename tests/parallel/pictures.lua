-- Captured tables are packed once and unpacked once in each domain, until something in them is written to: what crosses is what is there, by whatever door a store came;
-- a class is the same class over there, whichever way it comes; and what no one can send any more is let go.
-- stress: no
local pl = require "perilune"

local function text(t)
  local keys = {}
  for k, v in next, t do
    keys[#keys + 1] = tostring(k) .. "=" .. (type(v) == "table" and "{" .. tostring(v[1]) .. "}" or tostring(v))
  end
  table.sort(keys)
  local mt = getmetatable(t)
  keys[#keys + 1] = mt and "meta " .. tostring(rawget(mt, "__index")) .. tostring(rawget(mt, "x"))
  return table.concat(keys, " ")
end

local function numbers(step)
  return function()
    local t = {}
    for i = 1, 99 do t[i] = i * step end
    return t
  end
end
local kinds = {
  ints = numbers(1),
  floats = numbers(0.5),
  mixed = function() local t = {} for i = 1, 99 do t[i] = i % 2 == 0 and i or "s" .. i end return t end,
  holes = function() local t = numbers(1)() t[50] = nil return t end,
  dictionary = function() local t = {} for i = 1, 99 do t["k" .. i] = i end return t end,
  shape = function() return { a = 1, b = 2.5, c = "x", sub = { 0 } } end,
  deep = function() local t = numbers(1)() t.sub = { 1 } return setmetatable(t, { x = 1 }) end,
}
local stores = {
  function(t) t[#t + 1] = 1 end, function(t) t[#t + 1] = 1.5 end, function(t) t[#t + 1] = "x" end,
  function(t) t[1] = 2 end, function(t) t[1] = 2.5 end, function(t) t[1] = "y" end, function(t) t[1.0] = 77 end,
  function(t) t[5] = nil end, function(t) t[3] = t[3] t[4] = 99 end,
  function(t) rawset(t, 1, 7) end, function(t) rawset(t, "k1", 7) end, function(t) rawset(t, #t + 1, 8) end,
  function(t) table.insert(t, 5) end, function(t) table.insert(t, 1, 5) end, function(t) table.remove(t) end,
  function(t) table.remove(t, 1) end, function(t) table.sort(t, function(a, b) return tostring(a) > tostring(b) end) end,
  function(t) table.move({ 1, 2, 3 }, 1, 3, 2, t) end,
  function(t) setmetatable(t, { x = 2 }) end, function(t) debug.setmetatable(t, { x = 3 }) end,
  function(t) local mt = getmetatable(t) if mt then mt.__index = 1 end end, function(t) local mt = getmetatable(t) if mt then mt.x = 9 end end,
  function(t) if t.sub then t.sub[1] = 8 end end, function(t) if t.sub then t.sub[2] = 8 end end, function(t) t.sub = { 4 } end,
  function(t) t.new = 1 end, function(t) t.a = 5 end, function(t) t.a = "s" end, function(t) t.k7 = 3 end, function(t) t.k7 = nil end,
  function(t) t[2.5] = 1 end, function(t) t[true] = 1 end, function(t) local k = "k" .. 9 t[k] = 4 end,
}

for _, workers in ipairs { 1, 4 } do
  local pool = pl.pool.new { workers = workers }
  local function A(f, ...) return pool:async(f, ...):await() end

  -- Every store, to every kind of table.
  for name, make in pairs(kinds) do
    for n, store in ipairs(stores) do
      local t = make()
      local function same(when)
        local there = A(function() return text(t) end)
        assert(there == text(t), name .. " " .. n .. " " .. when .. "\n" .. there .. "\n" .. text(t))
      end
      same "before"
      same "again"
      store(t)
      same "after"
      same "again after"
      store(t)
      same "after twice"
    end
  end

  -- Hot stores.
  do
    local t, f = numbers(1)(), { x = 0.5 }
    for round = 1, 4 do
      for i = 1, 99 do t[i] = t[i] + 1 end
      for _ = 1, 300 do f.x = f.x + 1 end
      for i = 1, 100 do t[#t + 1] = i end
      local a, b, c, d = A(function() return t[99], t[1], f.x, #t end)
      assert(a == t[99] and b == t[1] and c == f.x and d == #t, round)
      for _ = 1, 300 do f.x = f.x * 1.01 end
      assert(A(function() local k = "x" return f[k] end) == f.x, round)
    end
  end

  -- Variables and globals that functions in them name.
  do
    local n = 1
    local M = { f = function() return n end, big = numbers(1)() }
    local seen = {}
    pool:parallel_for(1, 1, function() assert(M.f() == 1) end)
    n = 2
    pool:parallel_for(1, 1, function() assert(M.f() == 2) end)
    M.big[1] = 5
    pool:parallel_for(1, 1, function() assert(M.f() == 2 and M.big[1] == 5) end)
    local K = { g = function() return clamp(7) end, config = { limit = 1, other = 2 } }
    K.h = function() return K.config.limit end
    local function both(which) return A(function(which) return K[which]() end, which) end
    clamp = function(x) return x end
    assert(both "g" == 7)
    clamp = function(x) return -x end
    assert(both "g" == -7 and both "h" == 1)
    K.config.limit = 3
    assert(both "h" == 3)
    K.config = { limit = 4 }
    assert(both "h" == 4)
    local function set(v) debug.setupvalue(M.f, 1, v) end
    set(10)
    pool:parallel_for(1, 1, function() assert(M.f() == 10) end)
  end

  -- Collections and arenas with no store change nothing.
  do
    local P = { __index = {}, name = "P" }
    local echo, answers = pl.channel.new(1), pl.channel.new(1)
    local watcher = pool:async(function()
      local first
      for o in echo do
        local mt = getmetatable(o)
        first = first or mt
        answers:send(rawequal(mt, first))
      end
    end)
    local function same()
      echo:send(setmetatable({}, P))
      return answers:recv()
    end
    same()
    assert(same())
    collectgarbage()
    assert(same())
    collectgarbage "step"
    pl.arena(function() local t = {} for i = 1, 100 do t[i] = {} end end)
    assert(same())
    pl.arena(function() assert(same()) end)
    P.name = "Q"
    assert(not same())
    echo:close()
    watcher:await()
  end

  -- A class is the same one, whether it comes as a capture or with an instance, also through a channel, also inside a task.
  local function classes()
    local P, ch = {}, pl.channel.new(1)
    assert(A(function(o) return getmetatable(o) == P end, setmetatable({}, P)))
    ch:send(setmetatable({}, P))
    assert(A(function() return getmetatable(ch:recv()) == P end))
    local Q = {}
    local t = pool:async(function() return getmetatable(ch:recv()) == Q, Q end)
    ch:send(setmetatable({}, Q))
    local is, back = t:await()
    assert(is and back == Q)
  end
  classes()
  if workers > 1 then A(function() return classes() end) end

  -- A function that is captured and a key, or a value, of a captured table, is one function.
  do
    local function add(a, b) return a + b end
    local names, list = { [add] = "add" }, { add }
    assert(A(function() return names[add] == "add" and rawequal(list[1], add) and names[list[1]] == "add" end))
    assert(A(function() return add(1, 2) == 3 and names[list[1]] == "add" end))
  end

  -- What is captured and an argument is one table; without the capture it is a copy to write to, pictures or not.
  do
    local E = { 1 }
    local function captured(v) return v == E, pcall(rawset, v, 1, 2) end
    for _ = 1, 2 do
      local is, may = A(captured, E)
      assert(is and not may)
      assert(A(function(v) v.x = 1 return v.x end, E) == 1 and E.x == nil)
      assert(A(function() local k = 1 return E[k] end) == 1)
    end
  end

  -- Cycles.
  do
    local big = numbers(1)()
    big.self = big
    big.k = { [big] = 1 }
    for _ = 1, 2 do
      local is, one = A(function() local s = "self" return big[s] == big, big.k[big] end)
      assert(is == true and one == 1)
    end
  end

  -- A list of tables that have crossed one by one: one copy of each in a crossing, and what is written afterwards is seen.
  do
    local list = {}
    for i = 1, 40 do
      local t = { n = i }
      list[i] = t
      assert(A(function() local k = "n" return t[k] end) == i)
    end
    local first = list[1]
    local function sum()
      local s, k = 0, "n"
      for _, t in ipairs(list) do s = s + t[k] end
      return s, rawequal(first, list[1])
    end
    for i = 1, 3 do
      local s, is = A(sum)
      assert(s == 820 + 100 * (i - 1) and is)
      list[i].n = list[i].n + 100
    end
  end

  -- What cannot be sent any more is let go, and never taken for another table.
  for i = 1, 300 do
    pl.arena(function()
      local t = {}
      for k = 1, 100 do t[k] = { i } end
      local r, n = A(function() local k = 1 return t[k], t[2][1] end)
      assert(r == t[1] and n == i)
    end)
  end
  for i = 1, 3000 do
    local j = { id = i }
    local task = pool:async(function() local k = "id" return j[k] end)
    if i % 100 == 0 then assert(task:await() == i) end
  end
  pool:close()
end
print "ok"
