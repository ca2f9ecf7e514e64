-- Integer keys far apart and float keys: a sparse grid, neighbours looked up, most of them absent.
-- bench: group=dictionaries size=300000 quick=30000
local n = tonumber(arg and arg[1]) or 300000

local seed = 5
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local width = 100003
local grid, cells = {}, {}
while #cells < n do
  local key = random(1000) * width + random(1000)
  if not grid[key] then
    cells[#cells + 1] = key
    grid[key] = #cells
  end
end
local pairs_found, checksum = 0, 0
for round = 1, 2 do
  for i = 1, #cells do
    local key = cells[i]
    for dy = -width, width, width do
      for dx = -1, 1 do
        local other = grid[key + dy + dx]
        if other and other ~= i then
          pairs_found = pairs_found + 1
          checksum = (checksum + other * round) % 1000000007
        end
      end
    end
  end
end
assert(pairs_found % 4 == 0, "every pair is seen from both sides, in both rounds")
local halves = {}
for i = 1, n do halves[i % 1000 + 0.5] = (halves[i % 1000 + 0.5] or 0) + 1 end
local sum = 0
for _, v in pairs(halves) do sum = sum + v end
assert(sum == n)
local result = string.format("sparse_keys %d %d", pairs_found, checksum)
local known = { [30000] = "sparse_keys 14932 339322761", [300000] = "sparse_keys 1440068 790593509" }
assert(not known[n] or result == known[n], result)
print(result)
