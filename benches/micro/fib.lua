-- One call of a recursive function, with its comparison, subtraction and addition: fib(35) has 29,860,703 calls.
-- bench: group=micro size=35 quick=27
local n = tonumber(arg and arg[1]) or 35
local function fib(k) if k < 2 then return k end return fib(k - 1) + fib(k - 2) end
local a, b = 1, 1
for _ = 1, n do a, b = b, a + b + 1 end
local t0 = os.clock()
fib(n)
print(string.format("ns=%.2f", (os.clock() - t0) / a * 1e9))
