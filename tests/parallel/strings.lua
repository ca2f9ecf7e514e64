-- Large strings between domains: who has them when others end, are cancelled, or have no memory.
local pl = require "perilune"
local pool <close> = pl.pool.new { workers = 3 }
local MB <const> = 1 << 20

local function sum(s) return #s .. s:sub(1, 3) .. s:sub(-3) .. s:byte(#s // 2) end

-- Each way to cross, twice and more: a task's argument and captured variable, a result, a message, a loop, a field, a key.
local s = ("abcdefg"):rep(MB // 7)
local wanted = sum(s)
for i = 1, 4 do
  assert(pool:async(sum, s):await() == wanted)
  assert(pool:async(function() return sum(s) end):await() == wanted)
  assert(pool:async(function(t) return sum(t.s) .. sum(t[1]) end, { s, s = s }):await() == wanted .. wanted)
  assert(pool:async(function() return s end):await() == s)
  assert(pool:async(function(t) return t[s] end, { [s] = i }):await() == i)
  pool:parallel_for(1, 20, function() assert(sum(s) == wanted) end)
  local c = pl.channel.new(2)
  c:send(s, { s })
  local a, b = c:recv()
  assert(a == s and b[1] == s)
end
local m = pl.map()
m:set("text", s)
for _ = 1, 3 do assert(m:get "text" == s) end
assert(pool:async(function() return m:get "text" == s end):await())
print("ways", #s, pool:async(function() return s:upper():lower() == s end):await())

-- A domain that ends while its strings are used elsewhere, and on their way.
local out = pl.channel.new()
local maker = pl.domain.spawn(function()
  for i = 1, 8 do
    local text = (tostring(i)):rep(MB)
    for _ = 1, 3 do out:send(i, text) end
  end
end)
maker:join()
local kept = {}
for i = 1, 24 do
  local n, text = out:recv()
  kept[i] = text
  assert(#text == MB and text:sub(-2) == tostring(n):rep(2))
end
collectgarbage()
for i = 1, 24 do assert(kept[i]:byte(MB // 2) == 48 + (i + 2) // 3) end
print("ended", #kept, kept[1] == kept[3], kept[1] == kept[4])
kept = nil

-- Many tasks with the same string, half of them cancelled.
local tasks = {}
for i = 1, 60 do
  tasks[i] = pool:async(function()
    pl.sleep(i % 3 / 1000)
    return sum(s)
  end)
  if i % 2 == 0 then tasks[i]:cancel() end
end
local done = 0
for i = 1, 60 do
  local ok, result = pcall(tasks[i].await, tasks[i])
  if ok then
    assert(result == wanted)
    done = done + 1
  end
  if i % 2 == 1 then assert(ok, result) end
end
print("cancelled", done >= 30)

-- Everybody sends everybody's strings on, while all collect.
local rounds = {}
for d = 1, 3 do
  rounds[d] = pool:async(function(first)
    local text = first
    for i = 1, 20 do
      text = pool:async(function(t)
        collectgarbage(i % 2 == 0 and "collect" or "step")
        return t
      end, text):await()
      if i % 7 == 0 then text = text:sub(1, -2) .. "#" end
    end
    return #text, text:sub(-1), text:sub(1, 5)
  end, ("xyz" .. d):rep(50000))
end
for d = 1, 3 do print("passed on", rounds[d]:await()) end

-- A table that is written to between crossings, with a string in it.
local state = { text = s, n = 0 }
for i = 1, 12 do
  state.n = i
  if i % 4 == 0 then state.text = s .. i end
  assert(pool:async(function() return #state.text * 100 + state.n end):await() == #state.text * 100 + i)
end

-- With little memory: what fails says so, and what is kept for crossings is no reason to fail.
collectgarbage()
local before = pl.limit { memory = pl.memory().total + 12 * MB }
local refused, arrived = 0, 0
for i = 1, 30 do
  local ok, result = pcall(function()
    local text = (i % 10 .. ""):rep(MB)
    for _ = 1, 2 do assert(pool:async(function() return #text end):await() == MB) end
    return true
  end)
  if ok then
    arrived = arrived + 1
  else
    assert(tostring(result):find("not enough memory", 1, true), result)
    refused = refused + 1
  end
end
pl.limit { memory = before or false }
assert(arrived >= 10, arrived)
print("limited", arrived + refused)
assert(pool:async(sum, s):await() == wanted)
