-- Strings taken apart and put together byte by byte: a rolling checksum, Caesar's cipher, hexadecimal.
-- bench: group=strings size=700 quick=45
local n = tonumber(arg and arg[1]) or 700
local byte, char, concat = string.byte, string.char, table.concat

local text = ("The quick brown fox jumps over the lazy dog, 0123456789 times. "):rep(16)

local function adler(s)
  local a, b = 1, 0
  for i = 1, #s do
    a = (a + byte(s, i)) % 65521
    b = (b + a) % 65521
  end
  return b * 65536 + a
end
local function caesar(s, k)
  local out = {}
  for i = 1, #s do
    local c = byte(s, i)
    if c >= 97 and c <= 122 then c = (c - 97 + k) % 26 + 97
    elseif c >= 65 and c <= 90 then c = (c - 65 + k) % 26 + 65 end
    out[i] = char(c)
  end
  return concat(out)
end
local digits = "0123456789abcdef"
local function hex(s)
  local out = {}
  for i = 1, #s do
    local b = byte(s, i)
    local lo = b % 16
    local hi = (b - lo) / 16
    out[2 * i - 1] = digits:sub(hi + 1, hi + 1)
    out[2 * i] = digits:sub(lo + 1, lo + 1)
  end
  return concat(out)
end
local function unhex(s)
  local out = {}
  for i = 1, #s, 2 do out[#out + 1] = char(tonumber(s:sub(i, i + 1), 16)) end
  return concat(out)
end

local sum = 0
for i = 1, n do
  local secret = caesar(text, i % 26)
  assert(caesar(secret, 26 - i % 26) == text)
  sum = (sum + adler(secret)) % 1000000007
  local h = hex(secret)
  assert(unhex(h) == secret)
  sum = (sum + adler(h)) % 1000000007
end
local result = string.format("bytes %d", sum)
local known = { [45] = "bytes 772307177", [700] = "bytes 653929392" }
assert(not known[n] or result == known[n], result)
print(result)
