-- stress: no
-- Keys that are chosen to be slow are not slow. Each time is held against that of keys which nobody chose.
local n = 20000

local function time(key)
  local keys = {}
  for i = 1, n do keys[i] = key(i) end
  local best = math.huge
  for _ = 1, 3 do
    local start, t = os.clock(), {}
    for i = 1, n do t[keys[i]] = i end
    best = math.min(best, os.clock() - start)
  end
  return best
end

local usual = time(function(i) return string.pack("<I8I8", i, i * 0x9E3779B97F4A7C15) end)
local function check(what, key)
  local spent = time(key)
  print(what, spent < 30 * usual + 0.05 and "fine" or spent / usual)
end

-- The first word zero after mixing with the golden ratio, turned as for a text of this length.
local golden = 0x9e3779b97f4a7c15
local turned = golden >> 16 | golden << 48
check("texts", function(i) return string.pack("<I8I8", turned, i) end)
check("texts of zeros", function(i) return string.pack("<I8I8", 0, i) end)
check("long texts", function(i) return string.pack("<I8I8I8I8I8", turned, 0, 0, i, 0) end)
for shift = 8, 56, 8 do
  check("integers << " .. shift, function(i) return i << shift | 1 << 62 end)
end
check("integers << 47", function(i) return i << 47 | 1 << 62 end)
check("halves", function(i) return i << 32 | i end)
check("floats", function(i) return i * 2.0 ^ -40 end)
check("large floats", function(i) return i * 2.0 ^ 900 end)
