-- Gravity between a few bodies: float fields of records read and written in a tight double loop. Energy must
-- stay the same, up to the error of the method.
-- bench: group=numeric size=350000 quick=22000
local n = tonumber(arg and arg[1]) or 350000
local sqrt = math.sqrt

local function body(x, y, z, vx, vy, vz, mass)
  return { x = x, y = y, z = z, vx = vx, vy = vy, vz = vz, mass = mass }
end
local bodies = {
  body(0, 0, 0, 0, 0, 0, 40.0),
  body(5.0, 0.1, 0.0, 0.0, 2.8, 0.1, 0.04),
  body(0.0, 8.5, 0.3, -2.2, 0.0, 0.0, 0.012),
  body(-13.0, 0.0, -0.2, 0.0, -1.75, 0.05, 0.002),
  body(0.0, -16.0, 0.9, 1.6, 0.1, 0.0, 0.002),
}

local function energy()
  local e = 0.0
  for i, b in ipairs(bodies) do
    e = e + 0.5 * b.mass * (b.vx * b.vx + b.vy * b.vy + b.vz * b.vz)
    for j = i + 1, #bodies do
      local c = bodies[j]
      local dx, dy, dz = b.x - c.x, b.y - c.y, b.z - c.z
      e = e - b.mass * c.mass / sqrt(dx * dx + dy * dy + dz * dz)
    end
  end
  return e
end

local function step(dt)
  local count = #bodies
  for i = 1, count do
    local b = bodies[i]
    local bx, by, bz, mass = b.x, b.y, b.z, b.mass
    local vx, vy, vz = b.vx, b.vy, b.vz
    for j = i + 1, count do
      local c = bodies[j]
      local dx, dy, dz = bx - c.x, by - c.y, bz - c.z
      local d2 = dx * dx + dy * dy + dz * dz
      local pull = dt / (d2 * sqrt(d2))
      local mine, theirs = c.mass * pull, mass * pull
      vx, vy, vz = vx - dx * mine, vy - dy * mine, vz - dz * mine
      c.vx, c.vy, c.vz = c.vx + dx * theirs, c.vy + dy * theirs, c.vz + dz * theirs
    end
    b.vx, b.vy, b.vz = vx, vy, vz
    b.x, b.y, b.z = bx + dt * vx, by + dt * vy, bz + dt * vz
  end
end

local before = energy()
for _ = 1, n do step(0.001) end
local after = energy()
assert(math.abs(after - before) < 1e-3 * math.abs(before), "energy is kept")
print(string.format("nbody %.9f %.9f", before, after))
