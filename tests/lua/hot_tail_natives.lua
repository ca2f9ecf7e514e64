-- Tail calls of library functions in hot code.

local N = 200
local format, concat, unpack, rep, max = string.format, table.concat, table.unpack, string.rep, math.max

-- A loop keeps these from being built in place of their calls.
local function formatted(n, x) for _ = 1, 1 do n = n + 1 end return format("%d-%s", n, x) end
local function joined(t) for _ = 1, 1 do end return concat(t, ",") end
local function values(t) for _ = 1, 1 do end return unpack(t) end
local function longest(n) for _ = 1, 1 do end return rep("x", n) end
local function greatest(...) for _ = 1, 1 do end return max(...) end
local function found(s) for _ = 1, 1 do end return s:find("(%d)(%a)") end

local function all(n)
  local length, sum, line = 0, 0, ""
  local list = {}
  for i = 1, n do
    length = length + #formatted(i, "x") + #longest(i % 50 * 20)
    list[(i - 1) % 7 + 1] = i
    if #list == 7 then length = length + #joined(list) end
    local a, b, c = values(list)
    sum = sum + (a or 0) + (b or 0) + (c or 0) + select("#", values(list)) + greatest(i, 3, 7.5)
    values(list)
    local from, to, digit, letter, none = found("ab" .. i % 10 .. "cd")
    line = line:sub(1, 20) .. digit .. letter .. tostring(none) .. from + to
    line = line .. #{ found("7x") } .. (found("-") and "?" or "!")
  end
  return length, sum, line
end
print(all(N))

-- More values than there is room for.
local many = {}
for i = 1, 3000 do many[i] = i end
local function count(n)
  local all = 0
  for i = 1, n do all = all + select("#", values(many)) end
  return all
end
print(count(50))

-- Errors name the function, and come from where they come from.
local function failing(n) local line for i = 1, n do line = joined { i, i < n and 1 or {} } end return line end
print(pcall(failing, N))
print(pcall(function() for i = 1, N do formatted(i, i) end return formatted(1) end))
local function trace(level) for _ = 1, 1 do end return debug.traceback("here", level) end
local function traced(n) local line for i = 1, n do line = trace(1) end return line end
print(traced(N))

-- Whatever has called the function gets the values: a metamethod, pcall, a coroutine, a comparator, a native.
local M = setmetatable({}, {
  __index = function(_, k) for _ = 1, 1 do end return format("<%s>", k) end,
  __add = function(a, b) for _ = 1, 1 do end return max(3, type(b) == "number" and b or 1) end,
  __lt = function(a, b) for _ = 1, 1 do end return rawequal(a, b) end,
  __call = function(_, ...) for _ = 1, 1 do end return max(...) end,
})
local function metamethods(n)
  local sum, yes = 0, 0
  for i = 1, n do
    sum = sum + #M[i] + (M + i) + M(i, 2)
    if M < M then yes = yes + 1 end
    local ok, a, b = pcall(found, "1a")
    sum = sum + a + b + (ok and 1 or 0)
    ok, a = pcall(joined, { {} })
    sum = sum + (ok and 1000 or 1)
  end
  return sum, yes
end
print(metamethods(N))
local co = coroutine.wrap(function(n) local x = n while true do x = coroutine.yield(formatted(x, "c")) end end)
local length = 0
for i = 1, N do length = length + #co(i) end
print(length)
local ended = 0
for i = 1, N do ended = ended + #coroutine.wrap(formatted)(i, "e") end
print(ended)
local list = {}
for i = 1, 60 do list[i] = i * 37 % 61 end
table.sort(list, function(a, b) for _ = 1, 1 do end return rawlen(rep("x", a)) < b end)
print(concat(list, " "))
print((("a1b2c3"):rep(40):gsub("%a%d", function(s) for _ = 1, 1 do end return rep(s:upper(), 1) end)):sub(1, 12))

-- What is called may be another function, or none.
local changing = format
local function change(n, x) for _ = 1, 1 do n = n + 1 end return changing(n, x) end
local function changes(n)
  local line = ""
  for i = 1, n do
    if i == 50 then changing = function(a, b) return a .. ":" .. b end end
    if i == 100 then changing = rep end
    if i == 150 then changing = setmetatable({}, { __call = function(_, a, b) return "T" .. a end }) end
    if i == n then changing = 7 end
    line = change(i, 2)
  end
  return line
end
print(pcall(changes, 49), pcall(changes, 99))
changing = format
print(pcall(changes, 140))
changing = format
print(#select(2, pcall(changes, 180)), pcall(changes, 1))

-- A hook that it sets sees the rest.
local events = 0
local function hook(f) for _ = 1, 1 do end return debug.sethook(f, "r") end
local function hooked(n)
  for i = 1, n do
    hook(function() events = events + 1 end)
    hook()
  end
end
hooked(N)
print(events > 0)
