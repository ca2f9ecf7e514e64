-- Words of a generated text counted in a table, then ranked.
-- bench: group=dictionaries size=6000000 quick=400000
local n = tonumber(arg and arg[1]) or 6000000

local seed = 2024
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local syllables = { "ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu" }
local words = {}
for i = 1, 3000 do
  local parts = {}
  for k = 1, random(3) + 1 do parts[k] = syllables[random(10) + 1] end
  words[i] = table.concat(parts)
end

local counts, distinct = {}, 0
for _ = 1, n do
  local w = words[random(random(3000) + 1) + 1]
  local c = counts[w]
  if not c then distinct = distinct + 1 end
  counts[w] = (c or 0) + 1
end
local ranked, total = {}, 0
for w, c in pairs(counts) do
  ranked[#ranked + 1] = w
  total = total + c
end
assert(total == n and #ranked == distinct)
table.sort(ranked, function(a, b)
  if counts[a] ~= counts[b] then return counts[a] > counts[b] end
  return a < b
end)
print(string.format("word_count %d %s %d %s %d", distinct, ranked[1], counts[ranked[1]], ranked[2], counts[ranked[2]]))
