-- Plain recursion: call, return, compare, subtract. The oldest question asked of an interpreter.
-- bench: group=calls size=35 quick=29
local n = tonumber(arg and arg[1]) or 35

local function fib(k)
  if k < 2 then return k end
  return fib(k - 1) + fib(k - 2)
end

local a, b = 0, 1
for _ = 1, n do a, b = b, a + b end
local result = fib(n)
assert(result == a)
print(string.format("fib %d", result))
