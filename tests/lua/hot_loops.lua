-- Loops that run long enough to be compiled, and then meet something else: types that change, limits of numbers, nil, metatables, errors, yields.
local function show(...) print(...) end

-- The control variable at the limits of integers.
do
  local n, last = 0, nil
  for i = math.maxinteger - 5, math.maxinteger do n = n + 1 last = i end
  show(n, last)
  n = 0
  for i = math.mininteger + 5, math.mininteger, -1 do n = n + 1 last = i end
  show(n, last)
  for _ = 1, 50 do
    for i = math.maxinteger - 2, math.maxinteger do n = n + (i & 1) end
  end
  show(n)
end

-- Wrapping arithmetic, division by constants, rounded down.
do
  local a, b, c, d = 1, 0, 0, 0
  for i = 1, 300 do
    a = a * 3 + i
    b = b + (i - 150) // 7
    c = c + (i - 150) % 7
    d = d ~ (a >> 3) ~ (a << 2)
  end
  show(a, b, c, d)
  local low = math.mininteger
  local q, r = 0, 0
  for _ = 1, 100 do q = low // 3 r = low % 3 end
  show(q, r)
end

-- Signed zeros and NaN.
do
  local z, nan, count = -0.0, 0 / 0, 0
  for i = 1, 200 do
    local x = z * i
    if x == 0 then count = count + 1 end
    if nan < i then count = count + 1000 end
    if not (nan < i) then count = count + 1 end
    if nan ~= nan then count = count + 1 end
    z = x
  end
  show(1 / z, count, z)
  local f = 0.0
  for _ = 1, 200 do f = -f end
  show(1 / f)
  f = 0.0
  for _ = 1, 201 do f = -f + 0 end
  show(1 / f)
end

-- Float loops up and down.
do
  local s = 0
  for x = 0.0, 10.0, 0.125 do s = s + x end
  for x = 10.0, 0.0, -0.125 do s = s * 1.001 + x end
  show(string.format("%.10f", s))
  local n = 0
  for x = 1.0, 100 do n = n + x end
  show(n)
end

-- Types that change while the loop runs.
do
  local s = 0
  for i = 1, 400 do
    if i == 200 then s = s + 0.5 end
    if i == 300 then s = "1000" end
    s = s + i
  end
  show(s)
  local v, kinds = 1, {}
  for i = 1, 300 do
    if i % 100 == 50 then v = ({ "x", 2.5, 7 })[i // 100 + 1] end
    kinds[math.type(v) or type(v)] = (kinds[math.type(v) or type(v)] or 0) + 1
  end
  show(kinds.integer, kinds.float, kinds.string)
end

-- Arrays that change their kind, get holes, grow.
do
  local t = {}
  for i = 1, 100 do t[i] = i end
  local s = 0
  for r = 1, 6 do
    if r == 3 then t[50] = 0.5 end
    if r == 4 then t[51] = "52" end
    if r == 5 then t[52] = false end
    for i = 1, 100 do
      local v = t[i]
      if v then s = s + v end
    end
  end
  show(s)
  for r = 1, 3 do for i = 1, #t do t[i] = i * r end end
  for i = 101, 300 do t[i] = t[i - 1] + 1 end
  show(#t, t[300])
  for i = 250, 300 do t[i] = nil end
  local n = 0
  for i = 1, 300 do if t[i] == nil then n = n + 1 end end
  show(n, t[0], t[-1])
  local key = 0.0
  s = 0
  for _ = 1, 150 do key = key + 1 s = s + t[key] end
  show(s)
end

-- Fields: shapes that change, fields that vanish, metatables.
do
  local o = { x = 1.5, y = 2, n = 0 }
  for i = 1, 300 do
    if i == 100 then o.z = true end
    if i == 200 then o.x = nil setmetatable(o, { __index = { x = 10 } }) end
    o.n = o.n + o.x + o.y
    if i < 200 then o.x = o.x + 1 end
  end
  show(o.n, rawget(o, "x"))
  local log = {}
  local p = setmetatable({}, { __newindex = function(t, k, v) log[#log + 1] = k rawset(t, k, v) end })
  for i = 1, 150 do p.count = i p["f" .. i % 3] = i end
  show(p.count, #log)
  local ops = setmetatable({}, { __add = function(_, n) return n * 2 end, __lt = function() return true end, __len = function() return 7 end })
  local s = 0
  for i = 1, 120 do
    local v = i > 60 and ops or i
    s = s + (v + i) + (v < ops and 1 or 0) + #ops
  end
  show(s)
end

-- Variables that closures refer to.
do
  local n, get, bump = 0, nil, nil
  get = function() return n end
  bump = function(k) n = n + k end
  local s = 0
  for i = 1, 200 do
    n = n + 1
    if i % 10 == 0 then bump(0.5) end
    s = s + get() + n
  end
  show(s, n)
  local fs = {}
  for i = 1, 100 do local j = i fs[i] = function() j = j + 1 return j + i end end
  s = 0
  for i = 1, 100 do s = s + fs[i]() + fs[i]() end
  show(s)
end

-- Errors, yields, closing, in the middle.
do
  local function f(t)
    local s = 0
    for i = 1, 200 do s = s + t[i] end
    return s
  end
  local t = {}
  for i = 1, 200 do t[i] = i end
  for _ = 1, 10 do f(t) end
  t[150] = {}
  show(pcall(f, t))
  t[150] = nil
  show(pcall(f, t))
  local co = coroutine.wrap(function()
    local s = 0
    for i = 1, 300 do
      s = s + i
      if i % 100 == 0 then coroutine.yield(s) end
    end
    return s
  end)
  show(co(), co(), co(), co())
  local closed = 0
  for _ = 1, 100 do
    local c <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    if closed % 2 == 0 then goto continue end
    closed = closed + 0
    ::continue::
  end
  show(closed)
end

-- while, repeat, goto, pairs, ipairs, next.
do
  local n, steps = 27, 0
  while n ~= 1 do
    if n % 2 == 0 then n = n // 2 else n = 3 * n + 1 end
    steps = steps + 1
  end
  show(steps)
  local x = 2.0
  repeat x = x * 0.5 + 1 / x until math.abs(x * x - 2) < 1e-12
  show(string.format("%.9f", x))
  local i, s = 0, 0
  ::again::
  i = i + 1
  if i % 3 == 0 then goto again end
  s = s + i
  if i < 500 then goto again end
  show(s)
  local t, sum, keys = {}, 0, 0
  for k = 1, 100 do t[k] = k t["k" .. k] = k / 2 end
  for r = 1, 5 do
    for k, v in pairs(t) do sum = sum + v if type(k) == "string" then keys = keys + 1 end end
    for _, v in ipairs(t) do sum = sum - v end
  end
  show(sum, keys)
  local function range(m, k) k = k + 1 if k <= m then return k end end
  for k in range, 200, 0 do sum = sum + k end
  show(sum)
end

-- A variable is changed from without.
do
  local function spy(v) debug.setlocal(2, 1, v) end
  local function f()
    local s = 0
    for i = 1, 300 do
      s = s + 1
      if i == 250 then spy(1000) end
    end
    return s
  end
  show(f())
end

-- Loops within loops within loops.
do
  local n = 12
  local a, b, c = {}, {}, {}
  for i = 1, n do
    a[i], b[i], c[i] = {}, {}, {}
    for j = 1, n do a[i][j] = i + j b[i][j] = (i - j) / 2 c[i][j] = 0 end
  end
  for _ = 1, 3 do
    for i = 1, n do
      local ai, ci = a[i], c[i]
      for j = 1, n do
        local s = 0
        for k = 1, n do s = s + ai[k] * b[k][j] end
        ci[j] = ci[j] + s
      end
    end
  end
  show(c[1][1], c[n][n], c[3][7])
end

-- Loops over integers up to a limit that is a float.
local function limited(lo, hi, up)
  local n, s = 0, 0
  if up then for i = lo, hi do n = n + 1; s = s + i end else for i = lo, hi, -3 do n = n + 1; s = s + i end end
  return n, s
end
for k = 1, 30 do for _, h in ipairs{ 3.5, 4.0, -1.5, 0.5, -0.0, 10.25} do limited(-2, h, true); limited(5, -h, false) end end
for _, h in ipairs{ 3.5, 4.0, -1.5, 0.5, -0.0, 10.25, 2^53 - 2^53 + 7.5, -2.0, -2.5, -1.99 } do print(h, limited(-2, h, true)); print(limited(5, -h == math.huge and 7.0 or -h == 2^60 and 2^60 or -h, false)) end
print(limited(math.maxinteger - 2, math.huge, true))
print(limited(math.maxinteger - 2, 2^63, true))
print(limited(math.mininteger + 3, -2^63, false))
print(limited(math.mininteger + 3, -math.huge, false))
