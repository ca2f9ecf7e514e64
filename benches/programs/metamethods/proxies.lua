-- __index and __newindex as functions: read-only views, defaults, counted access, a chain of both kinds.
-- bench: group=metamethods size=4500000 quick=270000
local n = tonumber(arg and arg[1]) or 4500000

local reads, writes = 0, 0
local function counted(target)
  return setmetatable({}, {
    __index = function(_, k) reads = reads + 1; return target[k] end,
    __newindex = function(_, k, v) writes = writes + 1; target[k] = v end,
  })
end
local function with_default(d) return setmetatable({}, { __index = function() return d end }) end
local function derived(base) return setmetatable({}, { __index = base }) end

local store = { total = 0 }
local view = counted(store)
local zeros = with_default(0)
local deep = derived(derived(derived({ rate = 3 })))
for i = 1, n do
  view.total = view.total + deep.rate
  if i % 4 == 0 then view.last = i end
  zeros[i % 10] = zeros[i % 10] + 1
end
assert(store.total == 3 * n)
assert(reads == n and writes == n + (n - n % 4) / 4)
local spread = 0
for k = 0, 9 do spread = spread + zeros[k] end
assert(spread == n)
print(string.format("proxies %d %d", store.total, reads + writes))
