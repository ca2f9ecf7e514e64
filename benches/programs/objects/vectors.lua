-- Small vector objects: methods that return new objects, chained, with two fields each.
-- bench: group=objects size=1000000 quick=60000
local n = tonumber(arg and arg[1]) or 1000000

local Vec = {}
Vec.__index = Vec
local function vec(x, y) return setmetatable({ x = x, y = y }, Vec) end
function Vec:plus(o) return vec(self.x + o.x, self.y + o.y) end
function Vec:scaled(k) return vec(self.x * k, self.y * k) end
function Vec:turned() return vec(-self.y, self.x) end
function Vec:dot(o) return self.x * o.x + self.y * o.y end

local p, v = vec(1, 0), vec(0.5, 0.25)
local crossed = 0
for i = 1, n do
  local before = p.x
  p = p:plus(v:scaled(i % 3 - 1))
  if before * p.x < 0 then crossed = crossed + 1 end
  if i % 4 == 0 then v = v:turned() end
  assert(v:dot(v) == 0.3125)
end
print(string.format("vectors %.6f %.6f %d", p.x, p.y, crossed))
