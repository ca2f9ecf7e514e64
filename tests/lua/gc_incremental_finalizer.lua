-- In incremental mode a finaliser runs at the end of a cycle: then weak tables hold nothing dead, however old.
collectgarbage("incremental")
local function cycle()
  local finished = false
  setmetatable({}, { __gc = function() finished = true end })
  repeat local a = {} until finished
end
local weak = setmetatable({}, { __mode = "k" })
local last
for i = 1, 100 do
  local n = {}
  weak[n] = { next = last }
  last = n
end
cycle()
local function count() local c = 0 for _ in pairs(weak) do c = c + 1 end return c end
print(count())
last = nil
cycle()
print(count())
