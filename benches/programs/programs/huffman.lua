-- Compression: frequencies, a code tree built with a priority queue, text packed into bytes and unpacked again.
-- bench: group=programs size=200 quick=14
local n = tonumber(arg and arg[1]) or 200
local byte, char, concat = string.byte, string.char, table.concat

local function frequencies(s)
  local f = {}
  for i = 1, #s do
    local b = byte(s, i)
    f[b] = (f[b] or 0) + 1
  end
  return f
end
local function tree(f)
  local nodes = {}
  for b, k in pairs(f) do nodes[#nodes + 1] = { byte = b, count = k, order = b } end
  local function less(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.order > b.order
  end
  table.sort(nodes, less)
  local order = 256
  while #nodes > 1 do
    local a, b = table.remove(nodes), table.remove(nodes)
    local parent = { left = a, right = b, count = a.count + b.count, order = order }
    order = order + 1
    local lo, hi = 1, #nodes + 1
    while lo < hi do
      local mid = (lo + hi - (lo + hi) % 2) / 2
      if less(nodes[mid], parent) then lo = mid + 1 else hi = mid end
    end
    table.insert(nodes, lo, parent)
  end
  return nodes[1]
end
local function codes(t, prefix, out)
  if t.byte then
    out[t.byte] = prefix
    return out
  end
  codes(t.left, prefix .. "0", out)
  return codes(t.right, prefix .. "1", out)
end
local function pack(s, code)
  local bits = {}
  for i = 1, #s do bits[i] = code[byte(s, i)] end
  local text = concat(bits)
  local padded = text .. ("0"):rep((8 - #text % 8) % 8)
  local out = {}
  for i = 1, #padded, 8 do out[#out + 1] = char(tonumber(padded:sub(i, i + 7), 2)) end
  return concat(out), #text
end
local function unpack_bits(s, count, t)
  local out, k, at, done = {}, 0, t, 0
  for i = 1, #s do
    local b, mask = byte(s, i), 128
    while mask >= 1 and done < count do
      if b >= mask then
        at = at.right
        b = b - mask
      else
        at = at.left
      end
      mask = mask / 2
      done = done + 1
      if at.byte then
        k = k + 1
        out[k] = char(at.byte)
        at = t
      end
    end
  end
  return concat(out)
end

local seed = 606
local function random(k) seed = seed * 16807 % 2147483647; return seed % k + 1 end
local vocabulary = { "stone", "river", "the", "of", "a", "mountain", "and", "light", "under", "bridge", "moon", "," }
local before, after = 0, 0
for _ = 1, n do
  local words = {}
  for k = 1, 1500 do words[k] = vocabulary[random(random(#vocabulary))] end
  local text = concat(words, " ")
  local t = tree(frequencies(text))
  local packed, bits = pack(text, codes(t, "", {}))
  assert(#packed == (bits + 7 - (bits + 7) % 8) / 8 and #packed < #text * 0.6)
  assert(unpack_bits(packed, bits, t) == text)
  before, after = before + #text, after + #packed
end
print(string.format("huffman %d %d", before, after))
