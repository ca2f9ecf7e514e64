-- Conway's game of life on a torus: two arrays of rows, eight neighbours, for a number of generations.
-- bench: group=arrays size=600 quick=40
local generations = tonumber(arg and arg[1]) or 600
local w, h = 128, 96

local function grid(f)
  local g = {}
  for y = 1, h do
    local row = {}
    for x = 1, w do row[x] = f(x, y) end
    g[y] = row
  end
  return g
end
local function step(from, to)
  local alive = 0
  for y = 1, h do
    local up, here, down = from[y > 1 and y - 1 or h], from[y], from[y < h and y + 1 or 1]
    local out = to[y]
    for x = 1, w do
      local l, r = x > 1 and x - 1 or w, x < w and x + 1 or 1
      local k = up[l] + up[x] + up[r] + here[l] + here[r] + down[l] + down[x] + down[r]
      local v = (k == 3 or (k == 2 and here[x] == 1)) and 1 or 0
      out[x] = v
      alive = alive + v
    end
  end
  return alive
end

-- A glider comes back to itself, shifted by one, after four generations.
local zero = function() return 0 end
local a, b = grid(zero), grid(zero)
a[2][3], a[3][4], a[4][2], a[4][3], a[4][4] = 1, 1, 1, 1, 1
for _ = 1, 2 do assert(step(a, b) == 5); assert(step(b, a) == 5) end
assert(a[3][4] == 1 and a[4][5] == 1 and a[5][3] == 1 and a[5][4] == 1 and a[5][5] == 1)

local seed = 7
local soup = grid(function()
  seed = seed * 16807 % 2147483647
  return seed % 3 == 0 and 1 or 0
end)
local spare, alive = grid(zero), 0
for _ = 1, generations do
  alive = step(soup, spare)
  soup, spare = spare, soup
end
local result = string.format("life %d", alive)
local known = { [40] = "life 1693", [600] = "life 657" }
assert(not known[generations] or result == known[generations], result)
print(result)
