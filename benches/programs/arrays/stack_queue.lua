-- Tables as stacks, queues and lists: append, remove from the end, insert in the middle, table.move-like shifts,
-- a queue with moving ends, and a binary heap.
-- bench: group=arrays size=400000 quick=35000
local n = tonumber(arg and arg[1]) or 400000
local insert, remove = table.insert, table.remove

local stack, popped = {}, 0
for i = 1, n do
  insert(stack, i)
  stack[#stack + 1] = i + 1
  if i % 3 == 0 then popped = popped + remove(stack) - remove(stack) end
end
assert(#stack == 2 * n - 2 * ((n - n % 3) / 3))

local queue, head, tail, served = {}, 1, 0, 0
for i = 1, n do
  tail = tail + 1
  queue[tail] = i
  if i % 2 == 0 then
    served = served + queue[head]
    queue[head] = nil
    head = head + 1
  end
end
local half = (n - n % 2) / 2
assert(served == half * (half + 1) / 2)

local list = {}
for i = 1, 60 do list[i] = i end
for i = 1, n / 10 do
  insert(list, i % 60 + 1, i)
  remove(list, (i * 7) % 60 + 1)
end
assert(#list == 60)

local heap, size = {}, 0
local function push(v)
  size = size + 1
  local i = size
  while i > 1 do
    local p = (i - i % 2) / 2
    if heap[p] <= v then break end
    heap[i] = heap[p]
    i = p
  end
  heap[i] = v
end
local function pop()
  local top, v = heap[1], heap[size]
  heap[size] = nil
  size = size - 1
  if size == 0 then return top end
  local i = 1
  while true do
    local c = 2 * i
    if c > size then break end
    if c < size and heap[c + 1] < heap[c] then c = c + 1 end
    if heap[c] >= v then break end
    heap[i] = heap[c]
    i = c
  end
  heap[i] = v
  return top
end
local seed = 99
for _ = 1, n do
  seed = seed * 16807 % 2147483647
  push(seed)
end
local before, checksum = 0, 0
for _ = 1, n do
  local v = pop()
  assert(v >= before)
  before = v
  checksum = (checksum * 31 + v) % 1000000007
end
assert(size == 0)
print(string.format("stack_queue %d %d %d", popped, served, checksum))
