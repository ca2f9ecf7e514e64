-- Doubly linked list: nodes inserted, moved to the front, unlinked; pointer chasing through record fields.
-- bench: group=objects size=20000 quick=1200
local n = tonumber(arg and arg[1]) or 20000

local List = {}
List.__index = List
function List.new()
  local head = { value = 0 }
  head.next, head.prev = head, head
  return setmetatable({ head = head, size = 0 }, List)
end
function List:push(value)
  local head = self.head
  local node = { value = value, next = head.next, prev = head }
  head.next.prev = node
  head.next = node
  self.size = self.size + 1
  return node
end
function List:unlink(node)
  node.prev.next = node.next
  node.next.prev = node.prev
  self.size = self.size - 1
end
function List:find(value)
  local head = self.head
  local node = head.next
  while node ~= head do
    if node.value == value then return node end
    node = node.next
  end
end
function List:sum()
  local s, node, head = 0, self.head.next, self.head
  while node ~= head do
    s = s + node.value
    node = node.next
  end
  return s
end

local list, expect = List.new(), 0
for i = 1, 500 do list:push(i); expect = expect + i end
local checksum = 0
for i = 1, n do
  local node = list:find(i * 7 % 500 + 1)
  list:unlink(node)
  list:push(node.value)
  local sum = list:sum()
  assert(sum == expect and list.size == 500)
  local walk, k = list.head.prev, 0
  while walk ~= list.head do
    k = k + 1
    checksum = (checksum + k * walk.value) % 1000003
    walk = walk.prev
  end
  assert(k == 500)
end
print(string.format("linked_list %d", checksum))
