-- pl.share: how fast it copies, and how fast what it makes is read, against the private original.
-- bench: group=parallel size=20000 quick=2000 luajit=no
local pl = require "perilune"
local n <const> = tonumber(arg and arg[1]) or 20000

local records, list, dictionary, keys = {}, {}, {}, {}
for i = 1, n do
  records[i] = { x = i, y = i * 0.5, z = -i, name = "record" }
  list[i] = i
  keys[i] = "key" .. i
  dictionary[keys[i]] = i
end

-- Million fields per second. What was copied is let go of between the rounds. The collector rests during them: an island counts as allocation, and a
-- step of up to half a millisecond that happens to be due is longer than the copy.
local function rate(v, fields)
  local least = math.huge
  for _ = 1, 5 do
    collectgarbage()
    collectgarbage "stop"
    local started = pl.now()
    pl.share(v)
    least = math.min(least, pl.now() - started)
    collectgarbage "restart"
  end
  return fields / least / 1e6
end

print(string.format("copy, list of numbers: %.1f M fields/s (goal >= 50)", rate(list, n)))
print(string.format("copy, list of records: %.1f M fields/s (goal >= 50)", rate(records, 5 * n)))
print(string.format("copy, dictionary: %.1f M fields/s (goal >= 50)", rate(dictionary, n)))

local ROUNDS <const> = 50
local function read_records(t)
  local sum = 0
  for _ = 1, ROUNDS do
    for i = 1, #t do
      local r = t[i]
      sum = sum + r.x + r.y + r.z
    end
  end
  return sum
end

local function read_list(t)
  local sum = 0
  for _ = 1, ROUNDS * 4 do
    for i = 1, #t do sum = sum + t[i] end
  end
  return sum
end

local function read_dictionary(t)
  local sum = 0
  for _ = 1, ROUNDS do
    for i = 1, #keys do sum = sum + t[keys[i]] end
  end
  return sum
end

local function walk(t)
  local sum = 0
  for _ = 1, ROUNDS do
    for _, v in pairs(t) do sum = sum + v end
  end
  return sum
end

-- Turns, so that a machine that slows down slows both; the speed of the shared one as a part of the private one's.
local function speed(read, private)
  local shared = pl.share(private)
  assert(read(private) == read(shared))
  local p, s = math.huge, math.huge
  for _ = 1, 7 do
    local a = os.clock()
    read(private)
    local b = os.clock()
    read(shared)
    local c = os.clock()
    p, s = math.min(p, b - a), math.min(s, c - b)
  end
  return p / s
end

print(string.format("read, records: %.3f x (goal >= 0.95)", speed(read_records, records)))
print(string.format("read, list: %.3f x (goal >= 0.95)", speed(read_list, list)))
print(string.format("read, dictionary of %d by computed names: %.3f x (goal >= 0.95)", n, speed(read_dictionary, dictionary)))
local options <const> = { depth = 5, width = 7, height = 11, name = "options" }
for i = 1, 100 do options["other" .. i] = i end
local function read_options(t)
  local sum = 0
  for _ = 1, n * ROUNDS do sum = sum + t.depth + t.width + t.height end
  return sum
end
print(string.format("read, dictionary by constant names: %.3f x (goal >= 0.95)", speed(read_options, options)))
print(string.format("walk with pairs: %.3f x (goal >= 0.95)", speed(walk, list)))
