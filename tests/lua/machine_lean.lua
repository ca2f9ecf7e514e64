-- What machine code does with fewer instructions: loops whose bodies end in branches, exits with numbers of
-- either kind, stores that a collection comes after, nodes of globals, comparisons of anything, tiny tables,
-- shifts by constants, remainders of floats.

local function show(...) print(...) end

-- Each branch has its own jump back to the loop.
local function machine(code, rounds)
  local pc, acc, n, trace = 1, 0, 0, 0
  while true do
    local op = code[pc]
    pc = pc + 1
    if op == "add" then acc = acc + code[pc] pc = pc + 1
    elseif op == "half" then acc = acc / 2
    elseif op == "int" then acc = acc // 1 | 0
    elseif op == "neg" then acc = -acc
    elseif op == "loop" then
      n = n + 1
      if n >= rounds then return acc, n, trace end
      pc = 1
    elseif op == "skip" then
      if n % 3 == 0 then pc = pc + 1 end
    else
      trace = trace + 1
      if type(op) == "function" then acc = op(acc, n) end
    end
  end
end
show(machine({ "add", 3, "neg", "add", 7, "loop" }, 300))
show(machine({ "add", 3, "half", "skip", "int", "add", 1, "loop" }, 300))
show(machine({ "add", 3, "int", function(a, k) return k == 150 and a + 0.5 or a end, "add", 1, "loop" }, 160))
show(pcall(machine, { "add", 3, function(a, k) return k == 90 and "x" or a end, "neg", "loop" }, 100))
show(machine({ "add", 1, function(a, k) return k == 80 and math.maxinteger or a end, "add", 1, "loop" }, 120))

local function collatz(from)
  local x, steps, most = from, 0, from
  while x ~= 1 do
    if x % 2 == 0 then
      x = x // 2
      if x == 4 then steps = steps + 1 goto on end
    else
      x = 3 * x + 1
    end
    if x > most then most = x end
    steps = steps + 1
    ::on::
  end
  return steps, most
end
for _, n in ipairs { 27, 27.0, 97, 871 } do show(collatz(n)) end

-- Numbers that are integers at one time and floats at another, where code is left.
local function mixed(list, f)
  local sum, product = 0, 1
  for i = 1, #list do
    local v = list[i]
    if v == nil then break end
    sum = sum + v
    product = product * (v > 2 and 1 or v)
    if f then f(i, sum, product) end
  end
  return sum, product, math.type(sum), math.type(product)
end
local ints, both, big = {}, {}, {}
for i = 1, 200 do
  ints[i], both[i], big[i] = i % 5, i % 7 == 0 and i / 2 or i % 5, i == 190 and math.maxinteger or i % 2
end
for _ = 1, 3 do
  show(mixed(ints))
  show(mixed(both))
  show(mixed(big))
  show(mixed(both, function(i, s, p) if i % 97 == 0 then show(i, s, p, math.type(s), math.type(p)) end end))
  show(pcall(mixed, { 1, 2.5, 3, "4", {} }))
end
local function minus_zero(n)
  local x = 0
  for i = 1, n do
    x = i % 2 == 0 and x * -1.0 or x + 0
    if i == n then error(string.format("%s %s", x, math.type(x)), 0) end
  end
end
for n = 98, 101 do show(pcall(minus_zero, n)) end

-- Stores after which a collection may be due.
local function fill(n, make)
  local list, map = {}, {}
  for i = 1, n do
    list[#list + 1] = make(i)
    map["k" .. i % 50] = make(-i)
    map[i % 31 * 1.5] = i
    if i % 100 == 0 then collectgarbage("step") end
  end
  local count, sum = 0, 0
  for k, v in pairs(map) do
    count = count + 1
    sum = sum + (type(v) == "table" and v[1] or v)
  end
  return #list, count, sum
end
show(fill(2000, function(i) return { i } end))
show(fill(2000, function(i) return i end))
show(fill(2000, function(i) return i % 2 == 0 and i or i + 0.5 end))
show(pcall(fill, 300))

-- Globals and fields of dictionaries, which move, go and come back.
for i = 1, 40 do _G["filler" .. i] = i end
counter, step = 0, 1
local function count(n)
  for _ = 1, n do counter = counter + step end
  return counter
end
show(count(100))
for i = 41, 200 do _G["filler" .. i] = i end
show(count(100))
step = nil
show(pcall(count, 1))
step = 0.5
show(count(100))
setmetatable(_G, { __index = function(_, k) return k == "step" and 1000 or nil end })
step = nil
show(count(10))
setmetatable(_G, nil)
step = 2
for i = 1, 200 do _G["filler" .. i] = nil end
collectgarbage()
for i = 1, 30 do _G["other" .. i] = i end
show(count(100))
local function in_env(_ENV)
  local s = 0
  for _ = 1, 50 do s = s + step end
  return s
end
local small, large = { step = 3 }, { step = 4 }
for i = 1, 60 do large["x" .. i] = i end
for _ = 1, 4 do show(in_env(small), in_env(large), in_env(_G)) end
large.step = nil
show(pcall(in_env, large))
large[1], large.step = 1, 5
show(in_env(large))

-- Anything compared with anything.
local meta = { __eq = function(a, b) return a.v == b.v end }
local function long(c) return string.rep(c, 100) end
local values = {
  nil, false, true, 0, 1, -1, 0.0, -0.0, 1.0, 1.5, 0 / 0, math.maxinteger, 2.0 ^ 63, "", "a", "a" .. "", long("b"),
  long("b"), {}, setmetatable({ v = 1 }, meta), setmetatable({ v = 1 }, meta), setmetatable({ v = 2 }, meta), print,
  meta.__eq, coroutine.create(print), io.stdout, "1", 3, "3", 3.0,
}
local function compare(n, many)
  local equal, unequal = 0, 0
  for _ = 1, many do
    for i = 1, n do
      local x = values[i]
      for j = 1, n do
        local y = values[j]
        if x == y then equal = equal + i * j else unequal = unequal + 1 end
        if x ~= y then unequal = unequal + j end
      end
    end
  end
  return equal, unequal
end
show(compare(30, 4))
values[5], values[6] = {}, "a"
show(compare(30, 2))

-- Tables of few keys, in the order in which they are traversed, and with the borders that they have.
local function tiny(...)
  local t = {}
  for _, k in ipairs { ... } do t[k] = k end
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = tostring(k) end
  return table.concat(keys, " ") .. " #" .. #t
end
for _ = 1, 60 do
  tiny(1) tiny(2, 1) tiny(4, 3, 2, 1) tiny(7, 100, 3)
end
show(tiny(1)) show(tiny(2)) show(tiny(2, 1)) show(tiny(1, 2, 3)) show(tiny(3, 2, 1)) show(tiny(4, 3, 2, 1))
show(tiny(5, 4, 3, 2, 1)) show(tiny(1, 3, 5)) show(tiny(2, 4, 6, 8)) show(tiny(8, 7, 6, 5)) show(tiny(9, 1, 8, 2))
show(tiny(100, 200, 300)) show(tiny(0, 1, 2)) show(tiny(-1, 1, -2, 2)) show(tiny(16, 1, 17, 2, 33))
show(tiny(1 << 40, 3, 1 << 20, 5)) show(tiny(15, 30, 45, 60)) show(tiny(3, 6, 9, 12, 15))
local function removed()
  local t = { [3] = 1 }
  t[3] = nil
  t[5], t[1], t[2] = 1, 2, 3
  t[1] = nil
  t[4], t[6] = 4, 6
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  return table.concat(keys, " ")
end
for _ = 1, 60 do removed() end
show(removed())

-- Shifts by constants, remainders of floats.
local function bits(n)
  local h = 1
  for i = 1, n do
    h = (h << 13) ~ (h >> 7) ~ (h << 0) ~ (h >> 63) ~ (i << 62)
    h = h ~ (h >> 64) ~ (h << 64) ~ (h << -3) ~ (h >> -60)
  end
  return h
end
show(bits(10)) show(bits(300))
local function remainders(n, a, b)
  local last, sum = 0, 0
  for i = 1, n do
    last = (a * i) % b
    sum = sum + last
  end
  return string.format("%.17g %.17g", last, sum)
end
for _, pair in ipairs { { 0.37, 1 }, { -0.37, 1 }, { 0.37, -1.5 }, { 1e15 + 0.5, 0.1 }, { 0.1, 3 * 0.1 }, { 5e-324, 1.5e-323 } } do
  show(remainders(200, pair[1], pair[2]))
end
local odd = { 0.0, -0.0, 1.0, -1.0, 0.5, 5.3, -5.3, 1 / 0, -1 / 0, 0 / 0, 2.0 ^ 53, 2.0 ^ 53 + 2, 1e308, 5e-324, 3 }
local function table_of_remainders()
  local line = {}
  for _, a in ipairs(odd) do
    for _, b in ipairs(odd) do
      line[#line + 1] = b == 3 and a == 3 and "-" or string.format("%.17g", math.type(a) == math.type(b) and a % b or a * 1.0 % b)
    end
  end
  return table.concat(line, " ")
end
local text = table_of_remainders():gsub("%-nan", "nan")
for _ = 1, 40 do assert(table_of_remainders():gsub("%-nan", "nan") == text) end
show(text)
