-- The log of a web server: requests, bytes and errors by path, from a file of so many megabytes.
-- bench: group=cores size=200 quick=1
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local size = (tonumber(arg and arg[1]) or 200) * 2 ^ 20

local name = os.tmpname()
do
  local file, lines, seed, written = assert(io.open(name, "w")), {}, 42, 0
  for i = 1, 2000 do
    seed = (seed * 16807) % 2147483647
    local status = seed % 31 == 0 and 500 or seed % 7 == 0 and 404 or 200
    lines[i] = string.format('10.0.%d.%d - - [01/Nov/2026:10:%02d:%02d +0000] "GET /item/%d HTTP/1.1" %d %d\n',
      seed % 256, i % 256, i % 60, i % 59, seed % 100, status, seed % 9000)
  end
  local block = table.concat(lines)
  while written < size do
    file:write(block)
    written = written + #block
  end
  file:close()
end

local function count(from, to)
  local file = assert(io.open(name))
  local found, line = {}, nil
  -- The line that begins before the part belongs to the part before.
  file:seek("set", math.max(0, from - 1))
  if from > 0 then file:read("*l") end
  local at = file:seek()
  while at < to do
    line = file:read("*l")
    if not line then break end
    at = at + #line + 1
    local path, status, bytes = line:match('"GET (/item/%d+) [^"]*" (%d+) (%d+)')
    local f = found[path]
    if not f then
      f = { requests = 0, bytes = 0, errors = 0 }
      found[path] = f
    end
    f.requests = f.requests + 1
    f.bytes = f.bytes + tonumber(bytes)
    if status >= "400" then f.errors = f.errors + 1 end
  end
  file:close()
  return found
end

local function merge(a, b)
  for path, f in pairs(b) do
    local t = a[path]
    if t then
      t.requests, t.bytes, t.errors = t.requests + f.requests, t.bytes + f.bytes, t.errors + f.errors
    else
      a[path] = f
    end
  end
  return a
end

local part = 2 ^ 20
local parts, all = math.ceil(size / part) + 1, {}
if pool then
  local list = {}
  for i = 1, parts do list[i] = i end
  for _, found in ipairs(pool:map(list, function(i) return count((i - 1) * part, i * part) end)) do merge(all, found) end
else
  for i = 1, parts do merge(all, count((i - 1) * part, i * part)) end
end
os.remove(name)
local requests, bytes, errors = 0, 0, 0
for _, f in pairs(all) do requests, bytes, errors = requests + f.requests, bytes + f.bytes, errors + f.errors end
local result = string.format("%d requests, %d bytes, %d errors", requests, bytes, errors)
-- What the reference implementation prints.
local known = { ["1"] = "14000 requests, 62969746 bytes, 2457 errors", ["200"] = "2694000 requests, 12117178266 bytes, 472797 errors" }
local expected = known[arg and arg[1] or "200"]
assert(not expected or result == expected, result)
print(result)
