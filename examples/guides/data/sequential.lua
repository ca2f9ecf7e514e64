-- Which paths of a web server take the most time? Reads a log, prints a table. Plain Lua.
--
--   perilune sequential.lua [FILE]        default: the sample log of ../../loganalyze

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

local paths = {}
for text in assert(io.open(file)):lines() do read(text, paths) end
report(paths)
