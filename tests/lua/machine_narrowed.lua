-- A variable that is an integer or a float while one loop runs, and an integer behind it: what is stored of it where
-- the next loop begins is what it has become, not what it was a round before.
local function after_while(p, t, o, n)
  local i = 0
  while i < n do
    i = i + 1
    p = t.x
    t = o
  end
  for j = 1, 2 do end
  return p
end

local function after_for(s, n, step)
  for i = 1, n do s = (s + step) // 1 | 0 end
  local count = 0
  while count < 3 do count = count + 1 end
  return s, math.type(s)
end

local function floats(p, t, o, n)
  local i = 0
  repeat
    i = i + 1
    p = t.x + 0.5
    t = o
  until i >= n
  local sum = 0
  for j = 1, 3 do sum = sum + j end
  return p, sum
end

local function two(p, q, t, o)
  for i = 1, 2 do
    p, q = t.x, q + 1
    t = o
  end
  for j = 1, 2 do
    for k = 1, 2 do end
  end
  return p, q
end

local A, B = { x = 4 }, { x = 1 }
local seen = {}
local function note(...)
  local key = table.concat({ ... }, " ")
  seen[key] = (seen[key] or 0) + 1
end
for i = 1, 600 do
  note("while", after_while(1.5, A, B, 2))
  note("three", after_while(1.5, A, B, 3))
  note("for", after_for(1.0, 2, 3.0))
  note("floats", floats(1, A, B, 2))
  note("two", two(2.5, 7.0, A, B))
end
local keys = {}
for key in pairs(seen) do keys[#keys + 1] = key end
table.sort(keys)
for _, key in ipairs(keys) do print(key, seen[key]) end
