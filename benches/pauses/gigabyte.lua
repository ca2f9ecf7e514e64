-- Pauses with about a gigabyte live that keeps changing: run with PERILUNE_GC_STATS=1 and read `step_pauses`.
local megabytes = tonumber(arg and arg[1]) or 1024
local groups = {}
local function record(i) return { id = i, name = "record " .. i, tags = { i, tostring(i % 97) } } end
local g = 0
while collectgarbage("count") < megabytes * 1024 do
  g = g + 1
  local group = {}
  for i = 1, 1000 do group[i] = record(g * 1000 + i) end
  groups[g] = group
end
local seed = 42
for i = 1, 3000000 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  local group = groups[seed // 1024 % g + 1]
  group[seed % 1000 + 1] = record(i)
end
print(g, collectgarbage("count") // 1024)
