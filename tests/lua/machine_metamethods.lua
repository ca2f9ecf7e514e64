-- Metamethods that are functions of Lua, as machine code calls them and builds them in place: operators, keys, comparisons, and what goes wrong in them.
local N = 300

local V = {}
V.__index = V
local function vec(x, y) return setmetatable({ x = x, y = y }, V) end
V.__add = function(a, b) return vec(a.x + b.x, a.y + b.y) end
V.__sub = function(a, b) return vec(a.x - b.x, a.y - b.y) end
V.__mul = function(a, b)
  if type(a) == "number" then return vec(a * b.x, a * b.y) end
  if type(b) == "number" then return vec(a.x * b, a.y * b) end
  return a.x * b.x + a.y * b.y
end
V.__unm = function(a) return vec(-a.x, -a.y) end
V.__len = function(a) return a.x + a.y end
V.__eq = function(a, b) return a.x == b.x and a.y == b.y end
V.__lt = function(a, b) return a.x < b.x end
V.__le = function(a, b) return a.x <= b.x end
V.__concat = function(a, b) return tostring(a) .. "~" .. tostring(b) end
V.__tostring = function(a) return "(" .. a.x .. ", " .. a.y .. ")" end
V.__idiv = function(a, b) return vec(a.x // b, a.y // b) end
V.__mod = function(a, ...) return select("#", ...), ... end
V.__bxor = function() end
V.__shl = function(a, b) return a, b end

do
  local at, sum, less, same, nils = vec(0, 0), 0, 0, 0, 0
  local one = vec(1, 2)
  for i = 1, N do
    at = at + one * 2 - -one
    at = at + 0.5 * one
    sum = sum + #at + at * one
    if at < one then less = less + 1 end
    if not (at <= one) then less = less + 10 end
    if at > one then less = less + 100 end
    if at == vec(at.x, at.y) then same = same + 1 end
    if at ~= one then same = same + 1 end
    if (at ~ one) == nil then nils = nils + 1 end
    if rawequal(at << 3, at) then nils = nils + 1 end
    sum = sum + (at % 7)
    at = at // 1
  end
  print(tostring(at), sum, less, same, nils, at .. one, 1 .. at)
end

-- What is called changes: another function, another class, none.
do
  local seen = {}
  local a, b = vec(1, 2), setmetatable({ x = 5, y = 6 }, { __add = function(p, q) return "other" end })
  local function add(p, q) return p + q end
  for i = 1, N do
    local p = i % 7 == 0 and b or a
    if i == 200 then V.__add = function(p, q) return "new " .. p.x + q.x end end
    local r = add(p, a)
    local key = type(r) == "table" and "v" .. r.x or r
    seen[key] = (seen[key] or 0) + 1
    if i > 280 then
      local ok, e = pcall(add, i % 3 == 0 and {} or i % 3 == 1 and "x" or nil, i % 2)
      seen[e] = (seen[e] or 0) + 1
    end
    if i == 290 then setmetatable(b, nil) end
    if i > 291 and p == b then local ok, e = pcall(add, b, b) seen[e] = (seen[e] or 0) + 1 end
  end
  local keys = {}
  for k in pairs(seen) do keys[#keys + 1] = k end
  table.sort(keys)
  for _, k in ipairs(keys) do print(k, seen[k]) end
  V.__add = function(p, q) return vec(p.x + q.x, p.y + q.y) end
end

-- Keys that are there now and then.
do
  local reads, writes, store = 0, 0, {}
  local t = setmetatable({}, {
    __index = function(t, k)
      reads = reads + 1
      if k == "name" then return "t" end
      return store[k]
    end,
    __newindex = function(t, k, v)
      writes = writes + 1
      if writes % 5 == 0 then rawset(t, k, v) else store[k] = v end
    end,
  })
  local total = 0
  for i = 1, N do
    t[i % 13] = i
    total = total + (t[i % 13] or 0) + #t.name
    t.field = total
    total = total + t.field % 3
    if i % 50 == 0 then for k = 0, 12 do t[k] = nil end rawset(t, "field", nil) end
    t[i .. ""] = i
    total = total + t[i .. ""]
  end
  print(total, reads, writes)
end

-- Several levels of __index, functions at the end; a metamethod that is not a function.
do
  local calls = 0
  local deep = setmetatable({}, { __index = function(_, k) calls = calls + 1 return k .. calls end })
  local mid = setmetatable({}, { __index = deep })
  local obj = setmetatable({}, { __index = mid })
  local callable = setmetatable({}, { __call = function(self, t, k) return "called " .. k end })
  local odd = setmetatable({}, { __index = callable, __add = callable })
  local s
  for i = 1, N do s = obj.a .. obj.b .. mid.c end
  print(s, calls)
  for i = 1, N do s = odd[i % 3 == 0 and "x" or "y"] == nil end
  print(s, pcall(function() for i = 1, N do s = odd + "k" end return s end))
end

-- Errors in them, with names, lines and levels; frames as tracebacks show them.
do
  local E = {}
  E.__add = function(a, b) return a.n + b.n end
  E.__index = function(t, k) if k == "bad" then error("no " .. k, 2) end return 1 end
  E.__lt = function(a, b) return a.missing.field < b end
  E.__newindex = function(t, k, v) error({ k }) end
  E.__sub = function(a, b)
    local names = {}
    for level = 1, 3 do
      local info = debug.getinfo(level, "nlt")
      names[level] = (info.name or "?") .. ":" .. info.namewhat .. ":" .. info.currentline .. ":" .. tostring(info.istailcall)
    end
    return table.concat(names, " ")
  end
  E.__mul = function(a, b) return E.__sub(a, b) end
  local function make(n) return setmetatable({ n = n }, E) end
  local a, b = make(1), make(2)
  local function add(x, y) return x + y end
  local function less(x, y) if x < y then return "less" end return "not" end
  local function get(x, k) return x[k] end
  local function bad(x) return x.bad end
  local function set(x, k) x[k] = 1 end
  local function minus(x, y) local r = x - y return r end
  local function times(x, y) local r = x * y return r end
  for i = 1, N do
    assert(add(a, b) == 3 and get(a, i) == 1)
    minus(a, b) times(a, b)
    if i % 40 == 0 then
      pcall(less, a, b) pcall(bad, a) pcall(set, a, "k")
    end
  end
  print(minus(a, b))
  print(times(a, b))
  print(pcall(add, a, make(nil)))
  print(pcall(add, a, make("x")))
  print(pcall(less, a, b))
  print(pcall(bad, a))
  print(select(2, pcall(set, a, "k"))[1])
  a.n = nil
  print(pcall(function() for i = 1, 100 do add(b, i > 50 and a or b) end end))
end

-- Coroutines that yield in them, are dropped there, and fail there.
do
  local Y = {}
  Y.__add = function(a, b) return coroutine.yield(a.v, b) or 0 end
  Y.__index = function(t, k) return coroutine.yield(k) end
  Y.__lt = function(a, b) return coroutine.yield("lt") end
  Y.__newindex = function(t, k, v) coroutine.yield(v) end
  local function y(v) return setmetatable({ v = v }, Y) end
  local log = {}
  local function run(n)
    local co = coroutine.wrap(function()
      local t, sum = y(7), 0
      for i = 1, n do
        sum = sum + (t + i) + t.key
        if t < y(1) then sum = sum + 1000 end
        t.set = sum
      end
      return "sum " .. sum
    end)
    local got, steps = co(), 0
    while type(got) ~= "string" or got:sub(1, 3) ~= "sum" do
      steps = steps + 1
      got = co(got == "lt" and steps % 3 == 0 or steps)
    end
    return got, steps
  end
  for n = 1, 40 do log[n] = table.concat({ run(n) }, " ") end
  print(log[1], log[2], log[40])
  for i = 1, 60 do
    local co = coroutine.create(function() local t = y(1) for i = 1, 9 do local _ = t + 1 end end)
    for _ = 1, i % 8 do coroutine.resume(co) end
    co = nil
    if i % 20 == 0 then collectgarbage() end
  end
end

-- Recursion through them to the end of the stack, and collections in them.
do
  local R = {}
  R.__add = function(a, b) if b == 0 then return 0 end return 1 + (a + (b - 1)) end
  R.__index = function(t, k) return k == 0 and 0 or t[k - 1] end
  local r = setmetatable({}, R)
  local sum = 0
  for i = 1, 60 do sum = sum + (r + i) + r[i] end
  print(sum, r + 150)
  local O = {}
  O.__add = function(a, b) return 1 + (a + b) end
  local ok, e = pcall(function() return setmetatable({}, O) + 1 end)
  print(ok, e:find("stack overflow", 1, true) ~= nil)
  local G = { __mul = function(a, b) if b % 10 == 0 then collectgarbage("step") end return { a, b } end }
  local g, kept = setmetatable({}, G), {}
  for i = 1, N do kept[i % 20] = g * i end
  print(#kept, kept[0][2], kept[19][2])
end

-- Tail calls in them: of functions, of functions that make others, of natives, of themselves.
do
  local T = {}
  local function third(a, b, c) return a.n + b, c end
  local function second(a, b) return third(a, b, "c") end
  T.__add = function(a, b) return second(a, b) end
  T.__sub = function(a, b) return rawget(a, b) end
  T.__mul = function(a, b) if b <= 1 then return b end return T.__mul(a, b - 2) end
  T.__index = function(t, k) return tostring(k) end
  T.__lt = function(a, b) return rawequal(a, b) end
  T.__div = function(a, b) return select(2, a, b, 3) end
  local t, all = setmetatable({ n = 1 }, T), 0
  for i = 1, N do
    all = all + (t + i) + (t - "n") + t * (i % 9) + #t.key + t / i
    if not (t < t) then all = -1 end
  end
  print(all)
end

-- Hooks, and another function for the same one by the debugger.
do
  local H = {}
  local limit = 10
  H.__add = function(a, b) return limit + b end
  local h, lines, sum = setmetatable({}, H), 0, 0
  local function work() for i = 1, 100 do sum = sum + (h + i) end end
  work()
  debug.sethook(function() lines = lines + 1 end, "l")
  work()
  debug.sethook()
  debug.setupvalue(H.__add, 1, 20)
  work()
  print(sum, lines > 200)
end
