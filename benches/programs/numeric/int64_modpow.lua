-- 64-bit integers with floor division and remainder: Miller-Rabin on numbers of 31 bits.
-- bench: group=numeric size=1200000 quick=60000 luajit=no
local n = tonumber(arg and arg[1]) or 1200000

local function power(b, e, m)
  local r = 1
  b = b % m
  while e > 0 do
    if e & 1 == 1 then r = r * b % m end
    b = b * b % m
    e = e >> 1
  end
  return r
end
local function is_prime(m)
  if m < 2 then return false end
  for _, p in ipairs { 2, 3, 5, 7, 11, 13 } do
    if m % p == 0 then return m == p end
  end
  local d, s = m - 1, 0
  while d & 1 == 0 do d = d // 2; s = s + 1 end
  for _, a in ipairs { 2, 3, 5, 7 } do
    local x = power(a, d, m)
    if x ~= 1 and x ~= m - 1 then
      local composite = true
      for _ = 2, s do
        x = x * x % m
        if x == m - 1 then composite = false; break end
      end
      if composite then return false end
    end
  end
  return true
end

-- All numbers below 2000 against trial division.
for m = 0, 2000 do
  local prime = m > 1
  for d = 2, m - 1 do
    if d * d > m then break end
    if m % d == 0 then prime = false; break end
  end
  assert(prime == is_prime(m), m)
end
local count, last = 0, 0
for m = 2147483647 - n, 2147483647 do
  if is_prime(m) then count = count + 1; last = m end
end
assert(last == 2147483647)
local result = string.format("int64_modpow %d", count)
local known = { [60000] = "int64_modpow 2762", [1200000] = "int64_modpow 55815" }
assert(not known[n] or result == known[n], result)
print(result)
