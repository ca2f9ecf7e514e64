-- stress: no
-- JSON where memory ends, and where somebody interrupts: errors that can be caught, and nothing is lost.
local json = require "perilune.json"
local pl = require "perilune"

local kept = json.decode('{"list":[' .. ("1,"):rep(1000) .. "1]}")
local texts = {
  "[" .. ("{},"):rep(1 << 20) .. "{}]",
  "[" .. ('"0123456789",'):rep(1 << 20) .. "0]",
  "[" .. ("1,"):rep(4 << 20) .. "1]",
  "[" .. ('{"a":[1,2,3],"b":{"c":"\\u00e9"}},'):rep(1 << 18) .. "0]",
  '"' .. ("\\n"):rep(8 << 20) .. '"',
}
collectgarbage()
local base = pl.memory().total
for i, text in ipairs(texts) do
  for _, more in ipairs { 8 << 20, 12 << 20, 16 << 20, 24 << 20 } do
    pl.limit { memory = base + more }
    local ok, e = pcall(json.decode, text)
    pl.limit { memory = false }
    if not ok then assert(e == "not enough memory", e) end
    if more == 8 << 20 then print(i, ok) end
    collectgarbage()
  end
end

-- A limit that leaves room for what is wanted, if garbage goes.
local text = "[" .. ('{"a":1,"b":[true]},'):rep(20000) .. "0]"
pl.limit { memory = base + (64 << 20) }
for _ = 1, 30 do
  local v = json.decode(text)
  assert(#v == 20001 and v[20000].b[1] == true)
  assert(#json.encode(v) == #text)
end
local big = {}
for i = 1, 200000 do big[i] = "a string that is not so short \n \0" end
local ok, e = pcall(json.encode, { big, big, big, big, big, big, big, big, big, big, big, big, big, big })
print(ok, e)
pl.limit { memory = false }
big = nil
collectgarbage()

-- A task that is cancelled in the middle of a large text.
local pool = pl.pool.new { workers = 1 }
local long = "[" .. ('{"a":[1,2,3],"b":{"c":"x"}},'):rep(1 << 17) .. "0]"
local task = pool:async(function() local json = require "perilune.json" while true do json.encode(json.decode(long)) end end)
pl.sleep(0.05)
task:cancel()
print(pcall(task.await, task))
pool:close()
print(#kept.list, kept.list[1001], json.encode(json.decode "[1]"))
