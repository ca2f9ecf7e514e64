-- Integer remainder: coprime pairs by Euclid's algorithm, whose share tends to 6/pi^2, and trial division.
-- bench: group=numeric size=2000 quick=600
local n = tonumber(arg and arg[1]) or 2000

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end
local coprime = 0
for i = 1, n do
  for j = 1, n do
    if gcd(i, j) == 1 then coprime = coprime + 1 end
  end
end
local share = coprime / (n * n)
assert(math.abs(share - 6 / math.pi ^ 2) < 0.01)

local primes, count, sum = {}, 0, 0
local candidate = 2
while count < 4 * n do
  local prime = true
  for i = 1, count do
    local p = primes[i]
    if p * p > candidate then break end
    if candidate % p == 0 then prime = false; break end
  end
  if prime then
    count = count + 1
    primes[count] = candidate
    sum = sum + candidate
  end
  candidate = candidate + 1
end
print(string.format("gcd_primes %d %d %d", coprime, primes[count], sum))
