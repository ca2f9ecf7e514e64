-- A persistent balanced tree (treap): insertion copies the path, old versions stay usable for a while.
-- bench: group=allocation size=27000 quick=3000
local n = tonumber(arg and arg[1]) or 27000

local seed = 123
local function random() seed = seed * 16807 % 2147483647; return seed end
local function node(key, pri, left, right)
  return { key = key, pri = pri, left = left, right = right, size = 1 + (left and left.size or 0) + (right and right.size or 0) }
end
local function insert(t, key, pri)
  if not t then return node(key, pri, nil, nil) end
  if key == t.key then return t end
  if key < t.key then
    local l = insert(t.left, key, pri)
    if l.pri > t.pri then return node(l.key, l.pri, l.left, node(t.key, t.pri, l.right, t.right)) end
    return node(t.key, t.pri, l, t.right)
  end
  local r = insert(t.right, key, pri)
  if r.pri > t.pri then return node(r.key, r.pri, node(t.key, t.pri, t.left, r.left), r.right) end
  return node(t.key, t.pri, t.left, r)
end
local function rank(t, key)
  local r = 0
  while t do
    if key <= t.key then t = t.left
    else
      r = r + 1 + (t.left and t.left.size or 0)
      t = t.right
    end
  end
  return r
end

local versions, t = {}, nil
for i = 1, n do
  t = insert(t, random() % 1000000, random())
  versions[i % 64] = t
end
local function walk(x, f) if x then walk(x.left, f); f(x.key); walk(x.right, f) end end
local last, count = -1, 0
walk(t, function(k) assert(k > last); last = k; count = count + 1 end)
assert(count == t.size)
local older = versions[(n + 1) % 64]
assert(older.size <= t.size and older.size >= t.size - 63)
print(string.format("persistent_map %d %d %d", t.size, rank(t, 500000), rank(older, 250000)))
