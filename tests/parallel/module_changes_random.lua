-- Random changes of modules, with collections in between: a task finds what its caller has.
local pl = require "perilune"

local seed = 1
local function random(n)
  seed = (seed * 1103515245 + 12345) % 2147483648
  return (seed >> 8) % n + 1
end

-- Two modules that lead to each other's tables; the same text in each domain.
local TEXT <const> = [[
local name = ...
local M = { opts = { n = 1, s = "text" }, list = { 10, 20, { 30 } }, deep = { a = { b = { c = { 1 } }, k = {} } }, same = {} }
M.again, M.me = M.same, M
for i = 1, 5 do M["t" .. i] = { { i }, x = { y = i } } end
local other = name == "two" and require "one"
if other then M.others = other.deep end
return M
]]
for _, name in ipairs { "one", "two" } do
  package.preload[name] = function(n) return assert(load(TEXT, "@" .. name .. ".lua"))(n) end
end
local one <const>, two <const> = require "one", require "two"

-- All that a module leads to, as text.
local function show(v)
  local seen, parts, n = {}, {}, 0
  local function go(v)
    if type(v) ~= "table" then parts[#parts + 1] = tostring(v) return end
    if seen[v] then parts[#parts + 1] = "#" .. seen[v] return end
    n = n + 1
    seen[v] = n
    local keys = {}
    for k in pairs(v) do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    parts[#parts + 1] = "{"
    for _, k in ipairs(keys) do
      parts[#parts + 1] = tostring(k) .. "="
      go(v[k])
    end
    parts[#parts + 1] = "}"
    local mt = getmetatable(v)
    if mt then parts[#parts + 1] = "mt" .. tostring(mt.name) end
  end
  go(v)
  return table.concat(parts, " ")
end

-- A table that was in the module at first, by a way from there, if it is there still.
local WAYS <const> = { { "opts" }, { "list" }, { "list", 3 }, { "deep" }, { "deep", "a" }, { "deep", "a", "b" }, { "deep", "a", "b", "c" }, { "deep", "a", "k" }, { "same" }, { "t1" }, { "t2", 1 }, { "t3", "x" } }
local function behind(m, way)
  for _, k in ipairs(way) do
    m = m[k]
    if type(m) ~= "table" then return nil end
  end
  return m
end

local KEYS <const> = { "n", "s", "x", "new", 1, 2, 3, 4, 1.5, true }
local MT <const> = { name = "mt" }
local FIRST <const> = {}
for _, m in ipairs { one, two } do
  for _, way in ipairs(WAYS) do
    local t, was = behind(m, way), {}
    for k, v in pairs(t) do was[k] = v end
    FIRST[#FIRST + 1] = { t = t, was = was }
  end
end

local function change()
  local m = random(2) == 1 and one or two
  local what = random(10)
  if what == 1 then
    m["field" .. random(4)] = random(3) ~= 1 and random(9) or nil
  elseif what == 2 then
    -- As it was at first.
    local first = FIRST[random(#FIRST)]
    for k in pairs(first.t) do if first.was[k] == nil then first.t[k] = nil end end
    for k, v in pairs(first.was) do first.t[k] = v end
    setmetatable(first.t, nil)
  else
    local t = behind(m, WAYS[random(#WAYS)])
    if not t then return end
    local k = KEYS[random(#KEYS)]
    if what == 3 then
      t[k] = { random(9), { random(9) } }
    elseif what == 4 then
      t[k] = nil
    elseif what == 5 then
      setmetatable(t, random(2) == 1 and MT or nil)
    elseif what == 6 then
      for i = 1, random(20) do t["many" .. i] = random(9) end
    else
      t[k] = random(99)
    end
  end
end

local function task() return show(one) .. "|" .. show(two) end
local function nested() return pl.pool.default():async(task):await() end

local pool <const> = pl.pool.new { workers = 2 }
local differ, tasks = 0, 0
for round = 1, 60 do
  for _ = 1, random(4) do change() end
  if round % 7 == 0 then collectgarbage() end
  if round % 5 == 0 then collectgarbage "step" end
  local expected = show(one) .. "|" .. show(two)
  local list = {}
  for i = 1, random(3) do list[i] = pool:async(task) end
  if round % 10 == 0 then list[#list + 1] = pool:async(nested) end
  for _, t in ipairs(list) do
    tasks = tasks + 1
    local found = t:await()
    if found ~= expected then
      differ = differ + 1
      if differ == 1 then print(round, "\n" .. expected, "\n" .. found) end
    end
  end
end
print(tasks > 80, differ)
pool:close()
