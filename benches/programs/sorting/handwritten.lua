-- Sorting written in Lua: quicksort with insertion sort for short runs, merge sort, heap sort; all must agree.
-- bench: group=sorting size=300000 quick=25000
local n = tonumber(arg and arg[1]) or 300000

local function quick(t, lo, hi)
  while hi - lo > 12 do
    local mid = lo + (hi - lo - (hi - lo) % 2) / 2
    local a, b, c = t[lo], t[mid], t[hi]
    local pivot = a < b and (b < c and b or (a < c and c or a)) or (a < c and a or (b < c and c or b))
    local i, j = lo, hi
    while i <= j do
      while t[i] < pivot do i = i + 1 end
      while t[j] > pivot do j = j - 1 end
      if i <= j then
        t[i], t[j] = t[j], t[i]
        i, j = i + 1, j - 1
      end
    end
    if j - lo < hi - i then
      quick(t, lo, j)
      lo = i
    else
      quick(t, i, hi)
      hi = j
    end
  end
  for i = lo + 1, hi do
    local v, j = t[i], i - 1
    while j >= lo and t[j] > v do
      t[j + 1] = t[j]
      j = j - 1
    end
    t[j + 1] = v
  end
end

local function merge(t)
  local from, to, width, len = t, {}, 1, #t
  while width < len do
    for lo = 1, len, 2 * width do
      local i, j, mid, hi = lo, lo + width, lo + width, lo + 2 * width
      if mid > len + 1 then mid = len + 1 end
      if hi > len + 1 then hi = len + 1 end
      for k = lo, hi - 1 do
        if i < mid and (j >= hi or from[i] <= from[j]) then
          to[k] = from[i]
          i = i + 1
        else
          to[k] = from[j]
          j = j + 1
        end
      end
    end
    from, to = to, from
    width = width * 2
  end
  return from
end

local function sift(t, i, len)
  local v = t[i]
  while true do
    local c = 2 * i
    if c > len then break end
    if c < len and t[c + 1] > t[c] then c = c + 1 end
    if t[c] <= v then break end
    t[i] = t[c]
    i = c
  end
  t[i] = v
end
local function heap(t)
  local len = #t
  for i = (len - len % 2) / 2, 1, -1 do sift(t, i, len) end
  for last = len, 2, -1 do
    t[1], t[last] = t[last], t[1]
    sift(t, 1, last - 1)
  end
end

local seed = 17
local a, b, c = {}, {}, {}
for i = 1, n do
  seed = seed * 16807 % 2147483647
  a[i], b[i], c[i] = seed, seed, seed
end
quick(a, 1, n)
b = merge(b)
heap(c)
local h = 0
for i = 1, n do
  assert(a[i] == b[i] and b[i] == c[i])
  h = (h * 31 + a[i]) % 1000000007
end
for i = 2, n do assert(a[i - 1] <= a[i]) end
print(string.format("handwritten %d", h))
