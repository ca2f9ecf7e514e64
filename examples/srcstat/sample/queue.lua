-- A bounded queue: `push` refuses when it is full, `pop` returns nil when it is empty.

local Queue = {}
Queue.__index = Queue

--[[ The items are kept in a ring: `head` is the next to leave,
     `count` says how many there are. ]]
function Queue.new(limit)
  return setmetatable({ limit = limit, head = 1, count = 0, items = {} }, Queue)
end

function Queue:push(item)
  if self.count == self.limit then
    return false
  end
  local at = (self.head + self.count - 1) % self.limit + 1
  self.items[at] = item
  self.count = self.count + 1
  return true
end

function Queue:pop()
  if self.count == 0 then
    return nil
  end
  local item = self.items[self.head]
  self.items[self.head] = nil
  self.head = self.head % self.limit + 1
  self.count = self.count - 1
  return item
end

function Queue:describe()
  local parts = {}
  for i, item in pairs(self.items) do
    parts[#parts + 1] = i .. "=" .. tostring(item)
  end
  return table.concat(parts, ", ")
end

return Queue
