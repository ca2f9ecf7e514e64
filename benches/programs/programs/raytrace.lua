-- A ray tracer: spheres and a checkered floor, shadows, reflection; vectors are objects made by the million.
-- bench: group=programs size=300 quick=75
local n = tonumber(arg and arg[1]) or 300
local sqrt, floor, huge = math.sqrt, math.floor, math.huge

local Vec = {}
Vec.__index = Vec
local function vec(x, y, z) return setmetatable({ x = x, y = y, z = z }, Vec) end
Vec.__add = function(a, b) return vec(a.x + b.x, a.y + b.y, a.z + b.z) end
Vec.__sub = function(a, b) return vec(a.x - b.x, a.y - b.y, a.z - b.z) end
Vec.__mul = function(a, k) return vec(a.x * k, a.y * k, a.z * k) end
function Vec:dot(b) return self.x * b.x + self.y * b.y + self.z * b.z end
function Vec:unit() return self * (1 / sqrt(self:dot(self))) end
function Vec:reflect(normal) return self - normal * (2 * self:dot(normal)) end

local Sphere = {}
Sphere.__index = Sphere
function Sphere.new(center, radius, shade, mirror)
  return setmetatable({ center = center, radius2 = radius * radius, shade = shade, mirror = mirror }, Sphere)
end
function Sphere:hit(from, dir)
  local to = self.center - from
  local along = to:dot(dir)
  local gap = self.radius2 - (to:dot(to) - along * along)
  if gap < 0 then return nil end
  local half = sqrt(gap)
  local near = along - half
  if near > 1e-6 then return near end
  local far = along + half
  if far > 1e-6 then return far end
end
function Sphere:normal(at) return (at - self.center):unit() end
function Sphere:color() return self.shade end

local Floor = { mirror = 0.2 }
Floor.__index = Floor
function Floor:hit(from, dir)
  if dir.y > -1e-9 then return nil end
  local t = -(from.y + 1) / dir.y
  if t > 1e-6 then return t end
end
function Floor:normal() return vec(0, 1, 0) end
function Floor:color(at) return (floor(at.x) + floor(at.z)) % 2 == 0 and 0.9 or 0.2 end

local scene = {
  setmetatable({}, Floor),
  Sphere.new(vec(0, 0, 6), 1, 0.8, 0.4),
  Sphere.new(vec(2, 0.5, 5), 0.7, 0.5, 0.1),
  Sphere.new(vec(-2, 0, 4.5), 0.9, 0.3, 0.6),
  Sphere.new(vec(0.5, 1.6, 7), 0.6, 0.9, 0.0),
}
local light = vec(4, 6, -2)
local rays = 0

local function nearest(from, dir)
  rays = rays + 1
  local best, thing = huge, nil
  for i = 1, #scene do
    local t = scene[i]:hit(from, dir)
    if t and t < best then best, thing = t, scene[i] end
  end
  return thing, best
end
local function trace(from, dir, depth)
  local thing, t = nearest(from, dir)
  if not thing then return 0.3 + 0.4 * (dir.y > 0 and dir.y or 0) end
  local at = from + dir * t
  local normal = thing:normal(at)
  local to_light = light - at
  local distance = sqrt(to_light:dot(to_light))
  local towards = to_light * (1 / distance)
  local bright = 0.1
  local facing = normal:dot(towards)
  if facing > 0 then
    local blocker, gap = nearest(at, towards)
    if not blocker or gap > distance then bright = bright + 0.9 * facing end
  end
  local value = thing:color(at) * bright
  if depth > 0 and thing.mirror > 0 then
    value = value * (1 - thing.mirror) + thing.mirror * trace(at, dir:reflect(normal):unit(), depth - 1)
  end
  return value
end

local eye, histogram, sum = vec(0, 0.4, -2), {}, 0
for i = 0, 9 do histogram[i] = 0 end
for row = 0, n - 1 do
  for col = 0, n - 1 do
    local dir = vec((col + 0.5) / n - 0.5, 0.5 - (row + 0.5) / n, 1):unit()
    local v = trace(eye, dir, 3)
    assert(v >= 0 and v <= 1.5)
    sum = sum + v
    local bin = floor(v * 10)
    if bin > 9 then bin = 9 end
    histogram[bin] = histogram[bin] + 1
  end
end
local counted = 0
for i = 0, 9 do counted = counted + histogram[i] end
assert(counted == n * n)
print(string.format("raytrace %.6f %d", sum / counted, rays))
