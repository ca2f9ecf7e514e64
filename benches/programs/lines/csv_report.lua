-- A CSV file read line by line, split at commas, columns added up per key; then written out line by line.
-- bench: group=lines size=500000 quick=30000
local n = tonumber(arg and arg[1]) or 500000

local name = os.tmpname()
local file = assert(io.open(name, "w"))
local total = 0
for i = 1, n do
  file:write("region", i % 12, ",", i, ",", i % 97, ",item ", i % 31, "\n")
  total = total + i % 97
end
file:close()

local sums, counts, items = {}, {}, {}
for line in io.lines(name) do
  local region, id, amount, item = line:match("^([^,]*),([^,]*),([^,]*),([^,]*)$")
  sums[region] = (sums[region] or 0) + amount
  counts[region] = (counts[region] or 0) + 1
  items[item] = id
end
local regions, all = {}, 0
for region, sum in pairs(sums) do
  regions[#regions + 1] = region
  all = all + sum
end
assert(all == total)
table.sort(regions)
local out = assert(io.open(name, "w"))
for _, region in ipairs(regions) do
  out:write(("%-10s %8d %10d\n"):format(region, counts[region], sums[region]))
end
out:close()
local checksum = 0
for line in io.lines(name) do
  local region, count, sum = line:match("(%S+)%s+(%d+)%s+(%d+)")
  assert(counts[region] == tonumber(count))
  checksum = (checksum * 31 + sum) % 1000000007
end
os.remove(name)
print(string.format("csv_report %d %d", #regions, checksum))
