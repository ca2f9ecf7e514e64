-- Code that knows nothing of cores, with a module table, classes, constants and defaults, put into tasks as it is: counts words of texts.
-- bench: group=cores size=1500 quick=6
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 1500

local stop_words = { the = true, a = true, of = true, ["and"] = true }
local options = { least = 2, fold = true }

local Counter = {}
Counter.__index = Counter
function Counter.new(opts)
  opts = opts or options
  return setmetatable({ counts = {}, total = 0, least = opts.least, fold = opts.fold }, Counter)
end
function Counter:add(word)
  if self.fold then word = word:lower() end
  if #word >= self.least and not stop_words[word] then
    self.counts[word] = (self.counts[word] or 0) + 1
    self.total = self.total + 1
  end
end

local Merged = setmetatable({}, { __index = Counter })
Merged.__index = Merged
function Merged.new() return setmetatable(Counter.new(), Merged) end
function Merged:merge(other)
  for word, count in pairs(other.counts) do self.counts[word] = (self.counts[word] or 0) + count end
  self.total = self.total + other.total
end

local text = {}
function text.words(s, f)
  for word in s:gmatch("%a+") do f(word) end
end
function text.count(s, opts)
  local counter = Counter.new(opts)
  text.words(s, function(word) counter:add(word) end)
  return counter
end

local documents, parts = {}, { "The", "quick", "fox", "of", "Lua", "and", "cores", "a", "table", "Runs" }
for d = 1, n do
  local words = {}
  for i = 1, 2000 do words[i] = parts[(i * d) % 10 + 1] .. ((i * d) % 13 == 0 and "s" or "") end
  documents[d] = table.concat(words, " ")
end

local all = Merged.new()
if pool then
  local tasks = {}
  for d, document in ipairs(documents) do tasks[d] = pool:async(text.count, document) end
  for _, task in ipairs(tasks) do
    local counter = task:await()
    assert(getmetatable(counter) == Counter)
    all:merge(counter)
  end
else
  for _, document in ipairs(documents) do all:merge(text.count(document)) end
end
local kinds = 0
for _ in pairs(all.counts) do kinds = kinds + 1 end
local result = string.format("%d words of %d kinds, %d foxes", all.total, kinds, all.counts.fox)
-- What the reference implementation prints.
local known = {
  ["6"] = "7565 words of 16 kinds, 1478 foxes",
  ["1500"] = "1873995 words of 16 kinds, 306915 foxes",
}
local expected = known[arg and arg[1] or "1500"]
assert(not expected or result == expected, result)
print(result)
