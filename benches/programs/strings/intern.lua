-- Many distinct short strings, made and used once or twice as keys, compared for equality and order.
-- bench: group=strings size=1600000 quick=100000
local n = tonumber(arg and arg[1]) or 1600000
local sub = string.sub

local seed = 3
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local base = ("abcdefghijklmnopqrstuvwxyz"):rep(40)
local seen, distinct, repeated, ordered = {}, 0, 0, 0
local last = ""
for _ = 1, n do
  local at, len = random(1000) + 1, random(30) + 1
  local s = sub(base, at, at + len - 1)
  if seen[s] then
    repeated = repeated + 1
  else
    seen[s] = true
    distinct = distinct + 1
  end
  if last < s then ordered = ordered + 1 end
  if last == s then ordered = ordered + 3 end
  last = s .. random(4)
end
assert(distinct + repeated == n)
local count = 0
for k in pairs(seen) do
  assert(#k <= 30)
  count = count + 1
end
assert(count == distinct and distinct <= 26 * 30)
print(string.format("intern %d %d", distinct, ordered))
