-- Loops whose step is a constant, or is one on one way and not on another, and functions that are left and come
-- back in the middle of calls.
local function by(a, b, c)
  local out = {}
  for i = a, b, c or 1 do
    out[#out + 1] = i
    if #out > 8 then break end
  end
  return table.concat(out, " ")
end

local function down(n)
  local s = 0
  for i = n, 1, -3 do s = s * 3 + i end
  return s
end

local function nested(n)
  local s = 0
  for i = 1, n do
    for j = i, 1, -1 do
      for k = j, n, n % 2 == 0 and 2 or 3 do s = s + i * j + k end
    end
  end
  return s
end

for round = 1, 400 do
  local a, b, c, d = by(1, 3), by(3, 1, -1), by(1, 30, 7), by(4, 1)
  local e, f = down(round % 40), nested(round % 7)
  if round % 100 == 0 then print(a, b, c, d, e, f) end
end

-- What is known of registers is the same behind calls, whatever these leave in the processor's.
local function leaf(x, deep)
  if deep == 0 then return x * 2 end
  local a, b, c, d, e, f = x + 1, x + 2.5, x - 3, x * 4, x // 5, x % 6
  local r = leaf(x + 1, deep - 1)
  return r + a + b + c + d + e + f
end
local function many(n, call)
  local i1, i2, i3, i4, i5, f1, f2 = 1, 2, 3, 4, 5, 0.5, 0.25
  local t = {}
  for i = 1, n do
    local r = call(i, i % 4)
    i1, i2, i3, i4, i5 = i1 + i2, i3, i4 + i, i5 - i1 % 3, i2 & 0xFFFF
    f1, f2 = f2 + r, f1 / 2
    t[i % 5 + 1] = i1 % 1000
    if i % 97 == 0 then i1 = i1 % 4096 end
  end
  return i1, i2, i3, i4, i5, ("%.6f %.6f"):format(f1 % 1e6, f2 % 1e6), table.concat(t, ",")
end
for _ = 1, 3 do print(many(300, leaf)) end

-- A callee that yields, fails, or looks at the frames of its callers, at times.
local function strange(kind)
  return function(x)
    if x % 40 == 0 then
      if kind == "yield" then return coroutine.yield(x)
      elseif kind == "error" then error("at " .. x, 0)
      elseif kind == "trace" then return #debug.traceback("", 1) > 0 and x
      elseif kind == "string" then return tostring(x) end
    end
    return x + 1
  end
end
local function drive(n, f)
  local sum, last, count = 0, 0.5, 0
  for i = 1, n do
    local own = i * 2
    local v = f(i)
    sum, last, count = sum + own + v, last + own / 4, count + 1
  end
  return sum, last, count
end
for _, kind in ipairs { "plain", "trace", "string" } do print(kind, drive(500, strange(kind))) end
for _ = 1, 20 do
  local ok, what = pcall(drive, 500, strange("error"))
  assert(not ok and what == "at 40")
end
local co, steps = coroutine.wrap(function() return "end", drive(500, strange("yield")) end), 0
local at, a, b, c = co()
while at ~= "end" do
  steps = steps + 1
  at, a, b, c = co(at * 3)
end
print("yield", steps, a, b, c)
