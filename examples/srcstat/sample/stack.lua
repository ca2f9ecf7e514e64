-- A bounded stack, the queue's sibling.

local Stack = {}
Stack.__index = Stack

function Stack.new(limit)
  return setmetatable({ limit = limit, count = 0, items = {} }, Stack)
end

function Stack:push(item)
  if self.count == self.limit then
    return false
  end
  self.count = self.count + 1
  self.items[self.count] = item
  return true
end

function Stack:pop()
  if self.count == 0 then
    return nil
  end
  local item = self.items[self.count]
  self.items[self.count] = nil
  self.count = self.count - 1
  return item
end

function Stack:describe()
  local parts = {}
  for i, item in pairs(self.items) do
    parts[#parts + 1] = i .. "=" .. tostring(item)
  end
  return table.concat(parts, ", ")
end

local function trace(stack)
  local lines = { "-- not a comment", [[
also -- not a comment
]] }
  for i = stack.count, 1, -1 do
    lines[#lines + 1] = tostring(stack.items[i])
  end
  return table.concat(lines, "\n")
end

return { Stack = Stack, trace = trace }
