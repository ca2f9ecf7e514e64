-- table.sort with a comparison in Lua: records by two fields, strings by length, and in reverse.
-- bench: group=sorting size=90000 quick=9000
local n = tonumber(arg and arg[1]) or 90000

local seed = 31
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local people = {}
for i = 1, n do people[i] = { age = random(90), name = "n" .. random(100000), id = i } end

local comparisons = 0
local function by_age_name(a, b)
  comparisons = comparisons + 1
  if a.age ~= b.age then return a.age < b.age end
  if a.name ~= b.name then return a.name < b.name end
  return a.id < b.id
end
table.sort(people, by_age_name)
for i = 2, n do assert(not by_age_name(people[i], people[i - 1])) end
assert(comparisons > n)
local h = 0
for i = 1, n do h = (h * 31 + people[i].id) % 1000000007 end

table.sort(people, function(a, b)
  if #a.name ~= #b.name then return #a.name > #b.name end
  return a.id > b.id
end)
for i = 2, n do
  local a, b = people[i - 1], people[i]
  assert(#a.name > #b.name or (#a.name == #b.name and a.id > b.id))
end
for i = 1, n do h = (h * 31 + people[i].id) % 1000000007 end
print(string.format("sort_records %d", h))
