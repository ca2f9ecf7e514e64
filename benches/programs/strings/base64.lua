-- Base 64, forth and back, with sub, byte, char and tables; and reverse, upper, lower over the results.
-- bench: group=strings size=1200 quick=80
local n = tonumber(arg and arg[1]) or 1200
local byte, char, sub, concat, floor = string.byte, string.char, string.sub, table.concat, math.floor

local alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local value = {}
for i = 1, 64 do value[byte(alphabet, i)] = i - 1 end

local function encode(s)
  local out, k = {}, 0
  for i = 1, #s, 3 do
    local a, b, c = byte(s, i, i + 2)
    local v = a * 65536 + (b or 0) * 256 + (c or 0)
    for shift = 3, 0, -1 do
      local d = floor(v / 64 ^ shift) % 64
      k = k + 1
      out[k] = sub(alphabet, d + 1, d + 1)
    end
    if not b then out[k - 1] = "=" end
    if not c then out[k] = "=" end
  end
  return concat(out)
end
local function decode(s)
  local out, k = {}, 0
  for i = 1, #s, 4 do
    local a, b, c, d = byte(s, i, i + 3)
    local v = value[a] * 262144 + value[b] * 4096 + (value[c] or 0) * 64 + (value[d] or 0)
    local z = v % 256
    local y = (v - z) / 256 % 256
    local x = floor(v / 65536)
    k = k + 1
    out[k] = c == 61 and char(x) or d == 61 and char(x, y) or char(x, y, z)
  end
  return concat(out)
end

assert(encode("light work.") == "bGlnaHQgd29yay4=")
local length, same = 0, 0
for i = 1, n do
  local text = ("payload %d "):format(i):rep(150)
  text = sub(text, 1, #text - i % 3)
  local code = encode(text)
  assert(decode(code) == text)
  length = length + #code
  if code:reverse():reverse() == code and code:upper():lower() == code:lower() then same = same + 1 end
end
assert(same == n)
print(string.format("base64 %d", length))
