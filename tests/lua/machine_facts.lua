-- What is known of tables and numbers in loops, and changes there.

local function check(name, ...) print(name, ...) end

-- An array that changes its kind, grows, shrinks, gets a metatable in the middle of a loop.
do
  local function sum(t, n, at, change)
    local s = 0
    for i = 1, n do
      if i == at then change(t) end
      s = s + (t[i] or 0)
    end
    return s
  end
  local function new() local t = {} for i = 1, 100 do t[i] = i end return t end
  for _ = 1, 30 do sum(new(), 100, 0) end
  check("plain", sum(new(), 100, 0))
  check("float", sum(new(), 100, 50, function(t) t[60] = 0.5 end))
  check("string", pcall(sum, new(), 100, 50, function(t) t[60] = "x" end))
  check("number text", sum(new(), 100, 50, function(t) t[60] = "7" end))
  check("gone", sum(new(), 100, 50, function(t) t[60] = nil end))
  check("short", sum(new(), 100, 50, function(t) for i = 100, 61, -1 do t[i] = nil end end))
  check("long", sum(new(), 130, 50, function(t) for i = 101, 130 do t[i] = 1 end end))
  check("metatable", sum(new(), 130, 50, function(t)
    setmetatable(t, { __index = function(_, k) return k * 1000 end })
  end))
end

-- Stores: appends, overwriting with other types and nil, through two names of one table.
do
  local function fill(t, n, v) for i = 1, n do t[i] = v end return #t end
  for _ = 1, 30 do fill({}, 50, 1) end
  local t = {}
  check("append", fill(t, 50, 1), fill(t, 60, 2.5), fill(t, 70, "s"), fill(t, 70, true), t[70])
  fill(t, 70, nil)
  check("erased", next(t))
  local a, b = { 1, 2, 3 }, nil
  b = a
  local s = 0
  for i = 1, 300 do
    a[i % 3 + 1] = i
    s = s + b[i % 3 + 1]
    if i == 200 then b[2] = 0.25 end
    if i == 250 then b = { 7, 7, 7 } end
  end
  check("two names", s)
  local list = {}
  for i = 1, 300 do
    list[#list + 1] = i
    if #list ~= i then error("length") end
    if i % 50 == 0 then list[#list] = nil; list[#list + 1] = -i end
  end
  check("length", #list, list[50], list[300])
end

-- Fields: another shape, a field that goes and comes back, nil in fields, a metatable that answers.
do
  local function total(list) local s = 0 for i = 1, #list do local o = list[i]; s = s + (o.a or 0) + (o.b or 0) end return s end
  local list = {}
  for i = 1, 200 do list[i] = { a = i, b = 1 } end
  for _ = 1, 10 do total(list) end
  check("fields", total(list))
  list[50] = { b = 1, a = 5 }
  list[60].a = nil
  list[70] = setmetatable({ b = 2 }, { __index = { a = 1000 } })
  list[80] = setmetatable({}, { __index = function(_, k) return k == "a" and 0.5 or nil end })
  check("other fields", total(list))
  local o = { n = 0 }
  for i = 1, 300 do
    o.n = o.n + 1
    if i == 100 then o.n = nil; o.m = 1; o.n = 1000 end
    if i == 200 then o = setmetatable({}, { __index = { n = 5 }, __newindex = function(t, k, v) rawset(t, k, v * 2) end }) end
  end
  check("counted", o.n)
end

-- Globals and fields of tables that are upvalues.
do
  counter = 0
  local counts = { a = 0, b = 0 }
  local function both(i) counter = counter + 1; counts.a = counts.a + i; counts.b = counts.a end
  for i = 1, 300 do
    both(1)
    if i == 100 then counter = counter + 0.5 end
    if i == 200 then counts = { b = 1, a = 2.5 } end
    if i == 250 then counter = tostring(counter) end
  end
  check("globals", counter, counts.a, counts.b)
  counter = nil
  check("nil global", pcall(both, 1))
  local saved = math.floor
  local s = 0
  for i = 1, 300 do
    s = s + math.floor(i / 2)
    if i == 150 then math.floor = function(x) return x end end
  end
  math.floor = saved
  check("replaced native", s)
end

-- Integers and floats by turns.
do
  local function mixed(x, y) return x + y, x - y, x * y, x // y, x % y, x < y, x <= y, x == y end
  local values = { 1, 2.5, -3, 7.0, 1 << 62, -0.0, 1e300, math.maxinteger, math.mininteger, 3, -7.25, 0.0 }
  local rows = {}
  for round = 1, 30 do
    for i, x in ipairs(values) do
      for j, y in ipairs(values) do
        if not (math.type(y) == "integer" and y == 0) then
          local row = table.concat({ i, j, tostring(mixed(x, y)), select("#", mixed(x, y)) }, " ")
          for k = 2, 8 do row = row .. " " .. tostring((select(k, mixed(x, y)))) end
          if round == 1 then rows[#rows + 1] = row elseif rows[(i - 1) * #values + j] ~= row then error("other") end
        end
      end
    end
  end
  for i = 1, #rows, 11 do check("mixed", rows[i]) end
  local big = 1 << 53
  local function less(a, b) return a < b, a <= b, a == b, b < a end
  for _ = 1, 50 do less(1, 2.0); less(1.0, 2) end
  check("exact", less(big, big + 1.0), less(big + 1, big + 0.0))
  check("exact", less(math.maxinteger, 2.0 ^ 63), less(math.mininteger, -2.0 ^ 63))
  local nan = 0 / 0
  check("nan", less(nan, 1), less(1, nan))
  local function is(x) if x == 3 then return "three" elseif x == 2.5 then return "two and a half" elseif x == "s" then return "s" end return "no" end
  local words = {}
  for _ = 1, 60 do words = { is(3), is(3.0), is(2.5), is("s"), is("3"), is(nil), is({}), is(true), is("s" .. "") } end
  check("is", table.concat(words, ","))
end

-- Library functions at their edges.
do
  local floor, ceil, abs, sqrt, max, min, byte = math.floor, math.ceil, math.abs, math.sqrt, math.max, math.min, string.byte
  local function all(x, y) return floor(x), ceil(x), abs(x), sqrt(x), max(x, y), min(x, y) end
  for i = 1, 300 do all(i + 0.5, 3.5) end
  for _, x in ipairs { 0.5, -0.5, -0.0, 2 ^ 53, -2.0 ^ 63, 2.0 ^ 63, 1e300, -1e300, 1 / 0, -1 / 0, 7, -7, math.mininteger } do
    check("library", x, all(x, 1.5))
  end
  local nan = 0 / 0
  local function show(x) return x ~= x and "nan" or tostring(x) end
  check("nans", show(max(nan, 1.0)), show(max(1.0, nan)), show(min(nan, 1.0)), show(min(1.0, nan)))
  check("zeros", max(-0.0, 0.0), max(0.0, -0.0), min(0.0, -0.0), min(-0.0, 0.0))
  check("no number", pcall(all, "x", 1))
  local function bytes(s, i) return byte(s, i) end
  local t = 0
  for i = 1, 300 do t = t + bytes("abc", i % 3 + 1) end
  check("bytes", t, bytes("abc", 4), bytes("abc", 0), bytes("abc", -1), bytes("", 1), pcall(bytes, nil, 1))
  check("number as text", bytes(42, 1))
end

-- Loops at the ends of integers, and float keys.
do
  local function count(from, to, step)
    local n, last = 0, nil
    if step == 1 then for i = from, to do n = n + 1; last = i; if n > 20 then break end end
    elseif step == -1 then for i = from, to, -1 do n = n + 1; last = i; if n > 20 then break end end
    else for i = from, to, 3 do n = n + 1; last = i; if n > 20 then break end end end
    return n, last
  end
  for i = 1, 100 do count(1, i % 10, 1); count(i % 10, 1, -1); count(1, i, 3) end
  check("ends", count(math.maxinteger - 2, math.maxinteger, 1))
  check("ends", count(math.mininteger + 2, math.mininteger, -1))
  check("ends", count(math.maxinteger - 4, math.maxinteger, 3))
  check("none", count(1, 0, 1), count(0, 1, -1), count(5, 4, 3))
  check("wide", count(math.mininteger, math.maxinteger, 3))
  local t = { 10, 20, 30, 40 }
  local s = 0
  for i = 1, 300 do s = s + t[(i % 4) * 1.0 + 1] end
  t[2.0] = 21
  check("float keys", s, t[2], t[1.5], pcall(function() for i = 1, 100 do t[i < 90 and 1.0 or 0 / 0] = 1 end end))
end
