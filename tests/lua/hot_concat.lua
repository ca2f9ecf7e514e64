-- `..` of tables and other values in hot code.

local N = 200
local Rope = {}
Rope.__index = Rope
local function rope(a, b) return setmetatable({ a, b }, Rope) end
Rope.__concat = rope
local function flatten(r, out)
  if type(r) ~= "table" then out[#out + 1] = tostring(r); return out end
  flatten(r[1], out)
  return flatten(r[2], out)
end
Rope.__tostring = function(r) return table.concat(flatten(r, {})) end
local function build(n)
  local r = rope("<", ">")
  for i = 1, n do
    r = r .. "ab"
    if i % 2 == 0 then r = i .. r end
    if i % 3 == 0 then r = "c" .. r end
    if i % 7 == 0 then r = r .. r end
  end
  return r
end
for _ = 1, 20 do build(10) end
print(#tostring(build(40)), tostring(build(12)))

-- What it gives may be anything; several operands go from the right.
local S = {}
S.__concat = function(a, b)
  local x = getmetatable(a) == S and a.s or a
  local y = getmetatable(b) == S and b.s or b
  return setmetatable({ s = x .. "|" .. y }, S)
end
local function s(x) return setmetatable({ s = x }, S) end
local function several()
  local length, last = 0, nil
  for i = 1, N do
    last = s(i) .. "x" .. i .. s("y") .. (i % 2 == 0 and 1.5 or "z")
    length = length + #last.s
    last = "a" .. s("b")
    length = length + #last.s + #(s("b") .. 1).s + #("p" .. "q" .. s("r")).s
  end
  return length, last.s
end
print(several())

-- The object lives no longer than the operator.
local P = { __concat = function(a, b) return (type(a) == "table" and a.n or a) + (type(b) == "table" and b.n or b) end }
local function sums()
  local sum = 0
  for i = 1, N do
    sum = sum + (setmetatable({ n = i }, P) .. 2) + (3 .. setmetatable({ n = i }, P))
    sum = sum + (setmetatable({ n = i }, P) .. setmetatable({ n = -i }, P))
  end
  return sum
end
print(sums())

-- Strings and tables in one place, and what cannot be concatenated.
local function mixed(list)
  local count = 0
  for i = 1, N do
    local r = list[i % #list + 1] .. "!"
    count = count + (type(r) == "string" and #r or 1000)
  end
  return count
end
print(mixed { "a", 12, rope("p", "q"), 1.5 }, mixed { "a" }, mixed { rope(1, 2) })
print(pcall(mixed, { "a", "b", {} }))
print(pcall(mixed, { rope(1, 2), true }))
print(pcall(function() local r = rope("a", "b") for i = 1, N do if i == N - 3 then Rope.__concat = nil end r = r .. "x" end end))
Rope.__concat = rope

-- Errors, yields and tracebacks within.
local E = setmetatable({}, { __concat = function(a, b) if b == N then error("no " .. b) end return b end })
print(pcall(function() local sum = 0 for i = 1, N do sum = sum + (E .. i) end return sum end))
local Y = setmetatable({}, { __concat = function(a, b) return coroutine.yield(b) end })
local co = coroutine.wrap(function() local sum = 0 for i = 1, N do sum = sum + (Y .. i) end return -sum end)
local got, sum = co(), 0
while got > 0 do sum = sum + got; got = co(got) end
print(got, sum)
local T = setmetatable({}, { __concat = function(a, b) return b == N and debug.traceback("here") or "" end })
print((function() local r for i = 1, N do r = T .. i end return r end)())

-- __concat is a function of the library, or a table that can be called.
local L = setmetatable({}, { __concat = rawequal })
local C = setmetatable({}, { __concat = setmetatable({}, { __call = function(self, a, b) return type(b) end }) })
local function others()
  local n = 0
  for i = 1, N do
    if L .. L then n = n + 1 end
    if not (L .. i) then n = n + 1 end
    n = n + #(C .. i)
  end
  return n
end
print(others())

-- Strings have a metatable of their own, which may have __concat, and comes first; it is for tables alone.
getmetatable("").__concat = function(a, b) return "S" end
local function own()
  local r, t
  for i = 1, N do r, t = "s" .. rope(1, 2), "s" .. i end
  return r, t
end
print(own())
getmetatable("").__concat = nil
print(type((own())))
