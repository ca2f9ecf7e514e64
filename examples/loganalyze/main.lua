-- Reads web server logs (combined format, with the time taken in milliseconds at the end of a line) and prints a
-- report: traffic by hour, the paths that cost most, latency percentiles, errors and when they happened.
--
--   perilune main.lua [--top N] [FILE...]        default: access.log beside this program; - is standard input
--
-- Lines are read one at a time, so a log may be larger than memory. Latencies are counted in buckets that grow by
-- 5%, which bounds memory and keeps every percentile within 5% of the truth.

local LINE = '^(%S+) %S+ (%S+) %[([^:]+):(%d%d):(%d%d):(%d%d) [^%]]*%] "(%u+) (%S+) [^"]*" (%d%d%d) (%S+) "[^"]*" "([^"]*)" (%d+)$'

local function fail(...)
  io.stderr:write("loganalyze: ", string.format(...), "\n")
  os.exit(1)
end

local Histogram = {}
Histogram.__index = Histogram

local GROWTH = math.log(1.05)

function Histogram.new() return setmetatable({ buckets = {}, count = 0, total = 0, worst = 0 }, Histogram) end

function Histogram:add(ms)
  local bucket = math.ceil(math.log(ms < 1 and 1 or ms) / GROWTH)
  self.buckets[bucket] = (self.buckets[bucket] or 0) + 1
  self.count = self.count + 1
  self.total = self.total + ms
  if ms > self.worst then self.worst = ms end
end

-- The value that the share `q` of all values does not exceed.
function Histogram:percentile(q)
  local order = {}
  for bucket in pairs(self.buckets) do order[#order + 1] = bucket end
  table.sort(order)
  local wanted, seen = math.ceil(q * self.count), 0
  for _, bucket in ipairs(order) do
    seen = seen + self.buckets[bucket]
    if seen >= wanted then return math.min(math.exp(bucket * GROWTH), self.worst) end
  end
  return 0
end

local Log = {}
Log.__index = Log

function Log.new()
  return setmetatable({
    requests = 0, bytes = 0, skipped = 0, first = nil, last = nil,
    hours = {}, paths = {}, clients = {}, agents = {}, statuses = {}, failures = {}, latency = Histogram.new(),
  }, Log)
end

local function count(t, key, by) t[key] = (t[key] or 0) + (by or 1) end

function Log:path(name)
  local entry = self.paths[name]
  if not entry then
    entry = { name = name, requests = 0, bytes = 0, errors = 0, latency = Histogram.new() }
    self.paths[name] = entry
  end
  return entry
end

function Log:line(text)
  local client, _, day, hour, minute, second, method, target, status, size, agent, ms = text:match(LINE)
  if not client then
    self.skipped = self.skipped + 1
    return
  end
  local bytes, time = tonumber(size) or 0, tonumber(ms)
  local code = tonumber(status)
  local stamp = ("%s %s:%s:%s"):format(day, hour, minute, second)
  self.first = self.first or stamp
  self.last = stamp
  self.requests = self.requests + 1
  self.bytes = self.bytes + bytes
  self.latency:add(time)
  count(self.hours, hour)
  count(self.clients, client)
  count(self.agents, agent:match("^[^/%s]+") or "-")
  count(self.statuses, code)

  local entry = self:path(method .. " " .. target:gsub("%?.*$", ""))
  entry.requests = entry.requests + 1
  entry.bytes = entry.bytes + bytes
  entry.latency:add(time)
  if code >= 500 then
    entry.errors = entry.errors + 1
    count(self.failures, hour)
  end
end

function Log:read(name)
  local file, why = io.stdin, nil
  if name ~= "-" then
    file, why = io.open(name, "r")
    if not file then fail("%s", why) end
  end
  for text in file:lines() do self:line(text) end
  if file ~= io.stdin then file:close() end
end

-- Entries as { key, value } with the largest value first; equal ones by key.
local function ranked(t)
  local list = {}
  for key, value in pairs(t) do list[#list + 1] = { key = key, value = value } end
  table.sort(list, function(a, b)
    if a.value ~= b.value then return a.value > b.value end
    return tostring(a.key) < tostring(b.key)
  end)
  return list
end

local function human(bytes)
  local units, i = { "B", "KB", "MB", "GB", "TB" }, 1
  while bytes >= 1024 and i < #units do bytes, i = bytes / 1024, i + 1 end
  return (i == 1 and "%d %s" or "%.1f %s"):format(bytes, units[i])
end

local function say(...) print(string.format(...)) end
local function title(text) say("\n%s\n%s", text, ("-"):rep(#text)) end

local function top(list, limit, show)
  for i = 1, math.min(limit, #list) do show(list[i]) end
end

local function report(log, limit)
  if log.requests == 0 then fail("no line looks like a log entry (%d skipped)", log.skipped) end
  say("%d requests, %s, from %s to %s", log.requests, human(log.bytes), log.first, log.last)
  if log.skipped > 0 then say("%d lines skipped: not in the combined format", log.skipped) end

  title "Latency (ms)"
  local l = log.latency
  say("mean %.1f   p50 %.0f   p90 %.0f   p99 %.0f   p99.9 %.0f   worst %d", l.total / l.count,
    l:percentile(0.5), l:percentile(0.9), l:percentile(0.99), l:percentile(0.999), l.worst)

  title "Requests by hour (! marks server errors)"
  local busiest = ranked(log.hours)[1].value
  for hour = 0, 23 do
    local key = ("%02d"):format(hour)
    local n, errors = log.hours[key] or 0, log.failures[key] or 0
    say("%s %5d %s%s", key, n, ("#"):rep(math.ceil(n * 40 / busiest)), errors > 0 and (" !%d"):format(errors) or "")
  end

  title "Paths by total time"
  local spent = {}
  for _, entry in pairs(log.paths) do spent[entry.name] = entry.latency.total end
  say("%-28s %8s %6s %7s %7s %9s %6s", "path", "requests", "time%", "p50", "p99", "bytes", "errors")
  top(ranked(spent), limit, function(item)
    local e = log.paths[item.key]
    say("%-28s %8d %6.1f %7.0f %7.0f %9s %6d", e.name, e.requests, 100 * item.value / l.total,
      e.latency:percentile(0.5), e.latency:percentile(0.99), human(e.bytes), e.errors)
  end)

  title "Status codes"
  local codes = {}
  for code in pairs(log.statuses) do codes[#codes + 1] = code end
  table.sort(codes)
  for _, code in ipairs(codes) do
    say("%d %6d %5.1f%%", code, log.statuses[code], 100 * log.statuses[code] / log.requests)
  end

  title "Busiest clients"
  top(ranked(log.clients), limit, function(item) say("%-16s %6d", item.key, item.value) end)

  title "Agents"
  top(ranked(log.agents), limit, function(item) say("%-16s %6d", item.key, item.value) end)
end

local limit, files, i = 8, {}, 1
while arg[i] do
  if arg[i] == "--top" then
    i = i + 1
    limit = math.tointeger(tonumber(arg[i] or "")) or fail("--top wants a whole number")
  elseif arg[i]:find("^%-%-") then
    fail("unknown option %s", arg[i])
  else
    files[#files + 1] = arg[i]
  end
  i = i + 1
end
if #files == 0 then
  files[1] = (arg[0]:match("^(.*[/\\])") or "") .. "access.log"
end

local log = Log.new()
for _, name in ipairs(files) do log:read(name) end
report(log, limit)
