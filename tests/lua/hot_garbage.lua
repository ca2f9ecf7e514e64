-- A program that makes garbage until a collection comes, comes to an end, whatever machine code does with the garbage.
local function wait(make)
  local finished = false
  setmetatable({}, { __gc = function() finished = true end })
  local n = 0
  repeat make() n = n + 1 until finished
  return n > 0
end
for _, mode in ipairs { "generational", "incremental" } do
  collectgarbage(mode)
  for _ = 1, 3 do
    print(mode, wait(function() local t = { x = 1, y = 2 } return t.x end))
    print(mode, wait(function() local t = {} return t end))
    local finished = false
    setmetatable({}, { __gc = function() finished = true end })
    repeat local a = {} until finished
  end
end
