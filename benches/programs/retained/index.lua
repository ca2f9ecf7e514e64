-- An inverted index built and kept: documents, words, postings; then queries that intersect postings.
-- bench: group=retained size=35000 quick=2500
local n = tonumber(arg and arg[1]) or 35000

local seed = 9
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local postings, documents, occurrences = {}, {}, 0
for d = 1, n do
  local words = {}
  for k = 1, 20 do
    local w = "w" .. random(random(4000) + 1)
    words[k] = w
    local list = postings[w]
    if not list then
      list = {}
      postings[w] = list
    end
    if list[#list] ~= d then
      list[#list + 1] = d
      occurrences = occurrences + 1
    end
  end
  documents[d] = { id = d, words = words, title = "document " .. d }
end
local stored = 0
for _, list in pairs(postings) do
  stored = stored + #list
  for i = 2, #list do assert(list[i - 1] < list[i]) end
end
assert(stored == occurrences)

local function both(a, b)
  local out, i, j = {}, 1, 1
  while a[i] and b[j] do
    if a[i] == b[j] then
      out[#out + 1] = a[i]
      i, j = i + 1, j + 1
    elseif a[i] < b[j] then i = i + 1
    else j = j + 1 end
  end
  return out
end
local found = 0
for q = 1, n / 10 do
  local x, y = "w" .. q % 30, "w" .. (q * 7 + 1) % 50
  if postings[x] and postings[y] then
    local hits = both(postings[x], postings[y])
    found = found + #hits
    for k = 1, #hits, 25 do
      local has = false
      for _, w in ipairs(documents[hits[k]].words) do has = has or w == x end
      assert(has)
    end
  end
end
print(string.format("index %d %d", occurrences, found))
