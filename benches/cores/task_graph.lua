-- A graph of tasks that need each other's results, as a build tool has it; one that takes too long would be given up.
-- bench: group=cores size=4000 quick=40
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 4000

-- What a target does: a checksum over the results of those that it needs, for some thousand rounds.
local function work(i, inputs)
  local sum = i
  for _, input in ipairs(inputs) do sum = (sum * 31 + input) % 1000003 end
  for k = 1, 20000 do sum = (sum * 1103 + k) % 1000003 end
  return sum
end

local targets = {}
for i = 1, n do
  local needs = {}
  for k = 1, 3 do
    local j = i - (i * k) % 17 - 1
    if j >= 1 then needs[#needs + 1] = j end
  end
  targets[i] = { needs = needs }
end

local results = {}
if pool then
  local tasks = {}
  for i, target in ipairs(targets) do
    local before = {}
    for k, j in ipairs(target.needs) do before[k] = tasks[j] end
    tasks[i] = pool:async(function(waits_for)
      local inputs = {}
      for k, task in ipairs(waits_for) do inputs[k] = assert(task:await(60)) end
      return work(i, inputs)
    end, before)
  end
  for i, task in ipairs(tasks) do results[i] = assert(task:await(60)) end
else
  for i, target in ipairs(targets) do
    local inputs = {}
    for k, j in ipairs(target.needs) do inputs[k] = results[j] end
    results[i] = work(i, inputs)
  end
end
local sum = 0
for _, r in ipairs(results) do sum = (sum * 7 + r) % 1000003 end
local result = n .. " targets, " .. sum
-- What the reference implementation prints.
local known = {
  ["40"] = "40 targets, 708208",
  ["4000"] = "4000 targets, 447738",
}
local expected = known[arg and arg[1] or "4000"]
assert(not expected or result == expected, result)
print(result)
