-- A worker that is idle does not keep the originals of large captures alive at home.
local pl = require "perilune"
local pool = pl.pool.new { workers = 1 }
local weak = setmetatable({}, { __mode = "v" })
local function use()
  local big = {}
  for i = 1, 20000 do big[i] = { i } end
  weak[1] = big
  print(pool:async(function(i) return big[i][1] end, 7):await())
end
use()
for _ = 1, 100 do
  pl.sleep(0.01)
  collectgarbage()
  if not weak[1] then break end
end
print(weak[1])
pool:close()
