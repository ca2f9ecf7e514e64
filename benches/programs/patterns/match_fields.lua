-- Log lines taken apart with one anchored pattern of many captures; find with plain text and with classes.
-- bench: group=patterns size=280000 quick=18000
local n = tonumber(arg and arg[1]) or 280000

local lines = {}
local methods, paths = { "GET", "POST", "PUT" }, { "/", "/index.html", "/api/v1/users", "/img/logo.png" }
for i = 1, 200 do
  lines[i] = string.format('10.0.%d.%d - - [%02d/Nov/2026:10:%02d:%02d +0000] "%s %s?id=%d HTTP/1.1" %d %d "-" "agent/%d.%d"',
    i % 7, i % 250, i % 28 + 1, i % 60, i * 7 % 60, methods[i % 3 + 1], paths[i % 4 + 1], i, i % 9 == 0 and 404 or 200, i * 37, i % 5, i % 3)
end
local pattern = '^(%S+) %S+ %S+ %[([^%]]+)%] "(%u+) ([^ "?]*)[^ "]* HTTP/([%d.]+)" (%d%d%d) (%d+)'
local bytes, errors, hits, dots = 0, 0, 0, 0
for i = 1, n do
  local line = lines[i % 200 + 1]
  local ip, time, method, path, version, status, size = line:match(pattern)
  assert(ip and #time == 26 and version == "1.1")
  bytes = bytes + size
  if status ~= "200" then errors = errors + 1 end
  if method == "GET" and path:find("/api/", 1, true) then hits = hits + 1 end
  if line:find("%.png%?id=%d+ ") then dots = dots + 1 end
end
local result = string.format("match_fields %d %d %d %d", bytes, errors, hits, dots)
local known = { [18000] = "match_fields 66933000 1980 1530 4500", [280000] = "match_fields 1041180000 30800 23800 70000" }
assert(not known[n] or result == known[n], result)
print(result)
