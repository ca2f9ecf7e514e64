-- An image that is blurred again and again: one is read, the other one is written, and they change roles.
-- bench: group=cores size=400 quick=24
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local w = tonumber(arg and arg[1]) or 400
local h, TIMES = w, 10

local function image()
  if pool then return pl.array("f64", w * h) end
  local pixels = {}
  for i = 1, w * h do pixels[i] = 0.0 end
  return pixels
end
local from, to = image(), image()
for i = 1, w * h do from[i] = (i * 7919) % 256 + 0.0 end

local function blur_row(a, b, y)
  for x = 1, w do
    local sum, count = 0.0, 0
    for v = math.max(1, y - 1), math.min(h, y + 1) do
      for u = math.max(1, x - 1), math.min(w, x + 1) do
        sum = sum + a[(v - 1) * w + u]
        count = count + 1
      end
    end
    b[(y - 1) * w + x] = sum / count
  end
end

for _ = 1, TIMES do
  if pool then
    pool:parallel_for(1, h, function(y) blur_row(from, to, y) end)
  else
    for y = 1, h do blur_row(from, to, y) end
  end
  from, to = to, from
end
local sum = 0
for i = 1, w * h do sum = sum + from[i] * (i % 7) end
local result = string.format("%d x %d, %.4f", w, h, sum)
-- What the reference implementation prints.
local known = { ["24"] = "24 x 24, 219671.8821", ["400"] = "400 x 400, 61199685.1428" }
local expected = known[arg and arg[1] or "400"]
assert(not expected or result == expected, result)
print(result)
