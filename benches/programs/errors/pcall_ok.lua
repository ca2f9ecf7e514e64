-- Protected calls that succeed: with arguments and results, nested, and xpcall with a handler that is never used.
-- bench: group=errors size=2000000 quick=120000
local n = tonumber(arg and arg[1]) or 2000000

local function add(a, b) return a + b, a end
local function nested(a) local _, s = pcall(add, a, 1); return s end
local function handler() error("never called") end
local sum = 0
for i = 1, n do
  local ok, s, a = pcall(add, i, 1)
  assert(ok and s == a + 1)
  local ok2, t = pcall(nested, i)
  local ok3, u = xpcall(add, handler, t, 1)
  assert(ok2 and ok3 and u == i + 2)
  sum = (sum + u) % 1000003
end
print(string.format("pcall_ok %d", sum))
