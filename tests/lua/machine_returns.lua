-- Returns out of generic loops, with and without closures and variables to be closed.
local function first(t, x) for i, v in ipairs(t) do if v == x then return i, v end end return nil end
local function capture(t) for i, v in ipairs(t) do local f = function() return i + v end if v > 2 then return f end end end
local closed = 0
local function tbc(t)
  for i, v in ipairs(t) do
    local c <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
    if v == 3 then return i end
  end
end
local function four(n) return function(s, c) c = c + 1 if c <= s then return c end end, n, 0, setmetatable({}, { __close = function() closed = closed + 1 end }) end
local function early(n) for i in four(n) do if i == 2 then return i, "x" end end end
local s = 0
for i = 1, 3000 do
  s = s + first({ 1, 2, 3, 4 }, 3) + capture({ 1, 2, 3 })() + tbc({ 1, 2, 3, 4 }) + early(4)
  for j = 1, 3 do for k = 1, 2 do s = s + (j * k % 2) end end
end
print(s, closed)
-- Loops in loops, of integers and floats, entered in the inner one first.
local function go(n)
  local s, f = 0, 0.5
  for i = 1, n do
    for j = 1, 10, 3 do s = s + i * j end
    for x = 1.0, 0.0, -0.25 do f = f + x end
    for k = i, i + 5 do if k % 4 == 0 then break end s = s + k end
    local t = {}
    for y = 1, 3 do t[y] = y * 0.5 end
    s = s + #t
  end
  return s, f
end
print(go(2000))
for i = math.maxinteger - 2, math.maxinteger do for j = 1, 20 do if i == math.maxinteger and j == 20 then print(i, j) end end end
