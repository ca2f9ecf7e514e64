-- What it costs to bring a value of a kind and size to another domain: captured, as argument, as result, as message, shared. `crossing.lua 200 table` writes it as a table.
-- bench: group=parallel size=200 quick=2 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 200
local as_table <const> = arg and arg[2] == "table"

local Point = {}
Point.__index = Point
function Point:sum() return self.x + self.y end

-- How to make one of so many bytes: an element of a list takes 16, a small table of two fields about 64 with its place in the list.
local kinds = {
  { "a string", function(bytes) return ("x"):rep(bytes) end },
  { "numbers", function(bytes)
    local t = {}
    for i = 1, math.max(1, bytes // 16) do t[i] = i end
    return t
  end },
  { "records", function(bytes)
    local t = {}
    for i = 1, math.max(1, bytes // 64) do t[i] = { id = i, x = i * 0.5 } end
    return t
  end },
  { "instances", function(bytes)
    local t = {}
    for i = 1, math.max(1, bytes // 64) do t[i] = setmetatable({ x = i, y = i * 0.5 }, Point) end
    return t
  end },
}

-- Sizes, how often a way is gone, how many are on their way at once.
local sizes = {
  { "10 B", 10, n * 20, 16 },
  { "1 kB", 1000, n * 10, 16 },
  { "100 kB", 100000, n, 8 },
  { "10 MB", 10000000, math.max(1, n // 50), 2 },
}

local pool = pl.pool.new { workers = 1 }

-- Microseconds for each of `times` tasks, `at_once` of them under way.
local function tasks(times, at_once, f, v, between)
  local started = pl.now()
  local waiting, first = {}, 1
  for i = 1, times do
    if between then between(i) end
    if i > at_once then
      waiting[first]:await()
      waiting[first] = nil
      first = first + 1
    end
    waiting[i] = pool:async(f, v)
  end
  for i = first, times do waiting[i]:await() end
  return (pl.now() - started) / times * 1e6
end

local ways = {
  { "captured", function(v, times, at_once)
    local function f() return #v end
    -- The first crossings pay for the copy, and for the collections that make it old.
    for _ = 1, 5 do
      pool:async(f):await()
      pl.sleep(0.02)
    end
    return tasks(times, at_once, f)
  end },
  { "captured, written to each time", function(v, times, at_once)
    if type(v) == "string" then return end
    return tasks(times, at_once, function() return #v end, nil, function() v[1] = v[1] end)
  end },
  { "argument", function(v, times, at_once)
    return tasks(times, at_once, function(v) return #v end, v)
  end },
  { "result", function(_, times, at_once, make, bytes)
    local kept = pl.per_domain(function() return make(bytes) end)
    local function f() return kept:get() end
    pool:async(function() return #kept:get() end):await()
    return tasks(times, at_once, f)
  end },
  { "message", function(v, times, at_once)
    local there, done = pl.channel.new(at_once), pl.channel.new(1)
    local receiver = pl.domain.spawn(function()
      done:send(true)
      for _ = 1, times do there:recv() end
      done:send(true)
    end)
    done:recv()
    local started = pl.now()
    for _ = 1, times do there:send(v) end
    done:recv()
    local us = (pl.now() - started) / times * 1e6
    receiver:join()
    return us
  end },
  { "pl.share", function(v, times)
    local started = pl.now()
    for _ = 1, times do pl.share(v) end
    return (pl.now() - started) / times * 1e6
  end },
  { "shared, as argument", function(v, times, at_once)
    v = pl.share(v)
    return tasks(times, at_once, function(v) return #v end, v)
  end },
}

local function shown(us)
  if not us then return "" end
  if us < 10 then return ("%.1f"):format(us) end
  return ("%.0f"):format(us)
end

pool:async(function() end):await()
print(("a task that brings nothing: %.2f us"):format(tasks(n * 20, 16, function() return 0 end)))
if as_table then
  local heads = {}
  for i, way in ipairs(ways) do heads[i] = way[1] end
  print("\n| us | size | " .. table.concat(heads, " | ") .. " |\n" .. ("|---"):rep(#ways + 2) .. "|")
end
for _, kind in ipairs(kinds) do
  for _, size in ipairs(sizes) do
    local cells = {}
    for i, way in ipairs(ways) do
      collectgarbage()
      local us = way[2](kind[2](size[2]), size[3], size[4], kind[2], size[2])
      cells[i] = shown(us)
      if us and not as_table then print(("%s of %s, %s: %.2f us"):format(kind[1], size[1], way[1], us)) end
    end
    if as_table then print(("| %s | %s | %s |"):format(kind[1], size[1], table.concat(cells, " | "))) end
  end
end
pool:close()
