-- Which paths of a web server take the most time? Reads a log in parts, on all cores, prints a table.
--
--   perilune parallel.lua [FILE]          default: the sample log of ../../loganalyze

local pl = require "perilune"

local here = arg[0]:match "^(.*/)" or "./"
local file = arg[1] or here .. "../../loganalyze/access.log"
local LINE = '"%u+ (%S+) [^"]*" (%d%d%d) (%S+) .* (%d+)$'

local function read(text, paths)
  local path, status, bytes, ms = text:match(LINE)
  if not path then return end
  path = path:gsub("%?.*$", "")
  local p = paths[path]
  if not p then
    p = { requests = 0, errors = 0, bytes = 0, ms = 0 }
    paths[path] = p
  end
  p.requests = p.requests + 1
  p.bytes = p.bytes + (tonumber(bytes) or 0)
  p.ms = p.ms + tonumber(ms)
  if status >= "500" then p.errors = p.errors + 1 end
end

local function report(paths)
  local names = {}
  for name in pairs(paths) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    if paths[a].ms ~= paths[b].ms then return paths[a].ms > paths[b].ms end
    return a < b
  end)
  for i = 1, math.min(5, #names) do
    local p = paths[names[i]]
    print(string.format("%-22s %8d requests %6d errors %10d ms", names[i], p.requests, p.errors, p.ms))
  end
end

-- The lines that begin in bytes `from` to `to - 1` of the file. A line that reaches beyond `to` is still this part's.
local function part(from, to)
  local paths = {}
  local f = assert(io.open(file))
  if from > 0 then
    f:seek("set", from - 1)
    f:read "L" -- the rest of a line that began before
  end
  local at = f:seek()
  for text in f:lines() do
    if at >= to then break end
    at = at + #text + 1
    read(text, paths)
  end
  f:close()
  return paths
end

local function add(all, some)
  for name, p in pairs(some) do
    local q = all[name]
    if q then
      for key, value in pairs(p) do q[key] = q[key] + value end
    else
      all[name] = p
    end
  end
  return all
end

local f = assert(io.open(file))
local size = f:seek "end"
f:close()
local PART <const> = 1 << 20
local parts = (size + PART - 1) // PART
report(pl.pool.default():parallel_reduce(1, parts, {}, function(i) return part((i - 1) * PART, math.min(i * PART, size)) end, add))
