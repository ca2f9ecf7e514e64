-- Each iteration has a variable of its own, which nobody assigns: it can be captured.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local tasks = {}
for i = 1, 4 do tasks[i] = pool:async(function() return i * i end) end
for k, v in ipairs { "a", "b" } do
  local text <const> = v .. k
  tasks[#tasks + 1] = pool:async(function() return k, v, text end)
end
for _, t in ipairs(tasks) do print(t:await()) end
pool:close()
