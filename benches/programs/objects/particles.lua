-- An array of objects with eight fields each, updated in place by methods; walls reflect.
-- bench: group=objects size=6000 quick=350
local n = tonumber(arg and arg[1]) or 6000

local Particle = {}
Particle.__index = Particle
function Particle.new(i)
  return setmetatable({ x = i % 100, y = i * 7 % 100, vx = i % 5 - 2, vy = i % 3 - 1, hits = 0, age = 0, id = i, alive = true }, Particle)
end
function Particle:reflect()
  if self.x < 0 then self.x = -self.x; self.vx = -self.vx; self.hits = self.hits + 1
  elseif self.x > 100 then self.x = 200 - self.x; self.vx = -self.vx; self.hits = self.hits + 1 end
  if self.y < 0 then self.y = -self.y; self.vy = -self.vy; self.hits = self.hits + 1
  elseif self.y > 100 then self.y = 200 - self.y; self.vy = -self.vy; self.hits = self.hits + 1 end
end
function Particle:step()
  self.x = self.x + self.vx
  self.y = self.y + self.vy
  self.age = self.age + 1
  self:reflect()
end
function Particle:inside() return self.x >= 0 and self.x <= 100 and self.y >= 0 and self.y <= 100 end

local all = {}
for i = 1, 1000 do all[i] = Particle.new(i) end
for _ = 1, n do
  for i = 1, #all do all[i]:step() end
end
local hits, place = 0, 0
for _, p in ipairs(all) do
  assert(p:inside() and p.age == n)
  hits = hits + p.hits
  place = place + p.x * 3 + p.y
end
local result = string.format("particles %d %d", hits, place)
local known = { [350] = "particles 6527 200074", [6000] = "particles 111957 198000" }
assert(not known[n] or result == known[n], result)
print(result)
