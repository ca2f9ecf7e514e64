-- Functions that end in calls of library functions which machine code does itself.
local sqrt, floor, ceil, abs, min, max, sin = math.sqrt, math.floor, math.ceil, math.abs, math.min, math.max, math.sin
local byte, len = string.byte, string.len

local function root(x) return sqrt(x) end
local function length(x, y) return math.sqrt(x * x + y * y) end
local function half(x) return floor(x / 2) end
local function up(x) return math.ceil(x * 0.5) end
local function size(x) return abs(x - 3) end
local function sized(x) return math.abs(-x * 1.5) end
local function least(x) return min(x * 2, 7) end
local function most(x, y) return max(x + 0.5, y + 0.5) end
local function wave(x) return sin(x) end
local function letter(s, i) return byte(s, i) end
local function first(s) return s:byte() end
local function size_of(s) return len(s) end
local function own_size(s) return s:len() end
local all = { root, length, half, up, size, sized, least, most, wave, letter, first, size_of, own_size }
local names = { [root] = "root", [length] = "length", [half] = "half", [up] = "up", [size] = "size", [sized] = "sized",
  [least] = "least", [most] = "most", [wave] = "wave", [letter] = "letter", [first] = "first", [size_of] = "size_of",
  [own_size] = "own_size" }

local function show(x)
  if math.type(x) == "float" then return string.format("%.14g", x) end
  return tostring(x)
end
-- One result, none, all of them, and in the place of others.
local function use(f, ...)
  f(...)
  local one = f(...)
  local n = select("#", f(...))
  local list = { f(...), f(...) }
  return show(one) .. " " .. n .. " " .. #list .. " " .. show(list[#list])
end
local function run()
  local sum = 0
  for i = 1, 300 do
    sum = sum + root(i) + length(i, 4) + half(i) + up(i) + size(i) + sized(i) + least(i) + most(i, 9) + wave(i)
    sum = sum + letter("abcdef", i % 6 + 1) + first "xyz" + size_of "four" + own_size "seventh"
  end
  return show(sum)
end
for _ = 1, 6 do print(run()) end
for _, f in ipairs(all) do
  local s = names[f]
  for _ = 1, 60 do
    if f == letter then use(f, "hello", 2) elseif f == first or f == size_of or f == own_size then use(f, "hello")
    else use(f, 10, 20) end
  end
  if f == letter or f == first or f == size_of or f == own_size then
    print(s, use(f, "hello", 3), use(f, "", 1), use(f, "ab", -1))
  else
    for _, x in ipairs { 9, 2.25, -7, -0.0, 1e300, 1 / 0, math.mininteger, "16" } do print(s, show(x), use(f, x, 5)) end
  end
  -- What does not suit: who is to blame, and where.
  for _, wrong in ipairs { {}, false, "x" } do
    local ok, message = pcall(f, wrong, wrong)
    print(s, ok, ok and show(message) or message)
  end
end
-- Where the result goes on: operators, conditions, methods.
local V = setmetatable({}, { __index = function(t, k) return sqrt(k) end, __len = function() return floor(7.5) end,
  __add = function(a, b) return max(2.5, 1.5) end, __eq = function() return abs(-1) end,
  __lt = function() return sqrt(4) end, __concat = function() return byte("A", 1) end })
for _ = 1, 200 do
  assert(V[16] == 4 and #V == 7 and V + 1 == 2.5 and (V == setmetatable({}, getmetatable(V))) and V < V and V .. "" == 65)
end
-- Another function in its place.
for _ = 1, 100 do root(2) end
local old = sqrt
sqrt = function(x) return "other", x end
print(root(4))
sqrt = old
print(root(4))
math.sqrt = function() return 1, 2, 3 end
print(length(3, 4))
math.sqrt = old
print(length(3, 4))
print(select("#", table.unpack({ root(4), root(9), nil }, 1, 3)))
