-- Functions of the library whose quick forms machine code calls: with what they are made for, and with all else.
local many = {
  0, 1, -1, 2, 3, 7, 255, -5, 1 << 40, math.maxinteger, math.mininteger,
  0.0, -0.0, 0.5, 2.0, -2.5, 3.0, 1e15, 2.0 ^ 53, 1e300, -1e300, math.huge, -math.huge,
  "", "a", "Ab c", "10", "0x10", "3.5", " 7 ", ("xY"):rep(40), ("q"):rep(64), ("q"):rep(65),
  true, false,
}
local count = #many
local function shown(v)
  if math.type(v) == "float" and v ~= v then return "nan" end
  return type(v) == "number" and string.format(math.type(v) == "integer" and "%d" or "%.14g", v) or tostring(v)
end
-- What the function gives for each value, as text that is summed up.
local function sum(text)
  local s = 0
  for i = 1, #text do s = (s * 31 + text:byte(i)) % 1000000007 end
  return s
end

local one = {
  abs = function(x) return math.abs(x) end,
  ceil = function(x) return math.ceil(x) end,
  floor = function(x) return math.floor(x) end,
  tointeger = function(x) return (math.tointeger(x)) end,
  mtype = function(x) return (math.type(x)) end,
  max1 = function(x) return math.max(x) end,
  upper = function(x) return string.upper(x) end,
  lower = function(x) return string.lower(x) end,
  reverse = function(x) return string.reverse(x) end,
  getmetatable = function(x) return getmetatable(x) == nil end,
  next1 = function(x) return (next(x)) end,
  square = function(x) return x ^ 2 end,
  root = function(x) return x ^ 0.5 end,
  power = function(x) return 2 ^ x end,
}
local names = {}
for name in pairs(one) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local f, results, bad = one[name], {}, 0
  for round = 1, 40 do
    for i = 1, count do
      local ok, v = pcall(f, many[i])
      if not ok then bad = bad + 1 end
      if round == 40 then results[i] = shown(v) end
    end
  end
  print(name, bad, sum(table.concat(results, "|")))
end

local two = {
  fmod = function(a, b) return math.fmod(a, b) end,
  atan = function(a, b) return string.format("%.10g", math.atan(a, b)) end,
  max = function(a, b) return math.max(a, b) end,
  min = function(a, b) return math.min(a, b) end,
  ult = function(a, b) return math.ult(a, b) end,
  rep = function(a, b) return #string.rep(a, b % 100) end,
  pow = function(a, b) return string.format("%.10g", a ^ b) end,
}
names = {}
for name in pairs(two) do names[#names + 1] = name end
table.sort(names)
for _, name in ipairs(names) do
  local f, results, bad = two[name], {}, 0
  for i = 1, count do
    for k = 1, count do
      local ok, v = pcall(f, many[i], many[k])
      if not ok then bad = bad + 1 end
      results[#results + 1] = shown(v)
    end
  end
  print(name, bad, sum(table.concat(results, "|")))
end

-- The same numbers from the same seed, however they are asked for.
local function dice(rounds)
  math.randomseed(42, 7)
  local s = 0
  for i = 1, rounds do
    s = s + math.random(6) + math.random(-3, 3) + math.floor(math.random() * 100)
    if i % 50 == 0 then s = s ~ math.random(0) end
    if i % 70 == 0 then s = s + (pcall(math.random, 0, -1) and 1 or 2) + (pcall(math.random, -1) and 1 or 2) end
    s = s + math.random(1, 1) + math.random(math.mininteger, math.maxinteger) % 10
  end
  return s
end
print(dice(500))

-- Whether a table is empty, and its keys in turn.
local function empty(t) return next(t) == nil end
local none, some = {}, { x = 1 }
local empties = 0
for i = 1, 400 do if empty(i % 3 == 0 and none or some) then empties = empties + 1 end end
print(empties)
local function drain(t)
  local n = 0
  while true do
    local k = next(t)
    if k == nil then return n end
    t[k] = nil
    n = n + 1
  end
end
local drained = 0
for i = 1, 60 do drained = drained + drain { 1, 2, 3, a = 1, b = 2, [2.5] = 3 } end
print(drained)
local function walk(t)
  local n, k = 0, nil
  repeat k = next(t, k) if k ~= nil then n = n + 1 end until k == nil
  return n
end
for i = 1, 100 do drained = drained + walk { 1, 2, x = 3 } end
print(drained, pcall(function() return (next({}, "nobody")) end))
print(select("#", next({ 5 })), next({ 5 }))

-- Metatables, and what they show.
local plain, hidden = setmetatable({}, { tag = "own" }), setmetatable({}, { __metatable = "hidden" })
local function look(t) return getmetatable(t) end
local own, shows = 0, 0
for i = 1, 300 do
  local m = look(i % 2 == 0 and plain or hidden)
  if m == "hidden" then shows = shows + 1 elseif m.tag == "own" then own = own + 1 end
end
print(own, shows, getmetatable("").__index == string, getmetatable(1), pcall(getmetatable))
