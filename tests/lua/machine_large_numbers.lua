-- Integers and floats beyond 2^53, in machine code: which equal which, and which are less.

local function count(f, x)
  local n = 0
  for _ = 1, 40 do if f(x) then n = n + 1 end end
  return n
end

local tests = {
  { "== -2^63", function(x) return x == -2^63 end },
  { "-2^63 ==", function(x) return -2^63 == x end },
  { "== 2^63", function(x) return x == 2^63 end },
  { "== 2^62", function(x) return x == 2^62 end },
  { "== -2^62", function(x) return x == -2^62 end },
  { "== 2^53", function(x) return x == 2^53 end },
  { "== 2^53 + 2", function(x) return x == 9007199254740994.0 end },
  { "== -2^53 - 2", function(x) return x == -9007199254740994.0 end },
  { "== 2^53 + 1", function(x) return x == 9007199254740993 end },
  { "== maxinteger", function(x) return x == 0x7fffffffffffffff end },
  { "== mininteger", function(x) return x == -0x7fffffffffffffff - 1 end },
  { "== 1e300", function(x) return x == 1e300 end },
  { "== 0.5", function(x) return x == 0.5 end },
  { "~= 2^62", function(x) return x ~= 2^62 end },
  { "~= 2^53 + 2", function(x) return x ~= 9007199254740994.0 end },
  { "< 2^53", function(x) return x < 2^53 end },
  { "< 2^53 + 2", function(x) return x < 9007199254740994.0 end },
  { "<= 2^62", function(x) return x <= 2^62 end },
  { "> 2^62", function(x) return x > 2^62 end },
  { ">= -2^63", function(x) return x >= -2^63 end },
  { "< 2^63", function(x) return x < 2^63 end },
  { "<= -2^63", function(x) return x <= -2^63 end },
}
local numbers = {
  0, 1, 0.5, math.mininteger, math.mininteger + 1, math.maxinteger, math.maxinteger - 1, 1 << 62, (1 << 62) + 1, -(1 << 62),
  1 << 53, (1 << 53) + 1, (1 << 53) + 2, -(1 << 53) - 2, -(1 << 53) - 1, 2^53, 2^53 + 2, -2^53 - 2, 2^62, -2^62, 2^63, -2^63, 1e300,
}
-- Integers alone, floats alone, and both in turn.
for _, kind in ipairs { "integer", "float", "both" } do
  for _, test in ipairs(tests) do
    local name, source = test[1], test[2]
    local f = load(string.dump(source))
    local out = {}
    for _, x in ipairs(numbers) do
      if kind == "both" or math.type(x) == kind then out[#out + 1] = count(f, x) end
    end
    print(kind, name, table.concat(out, " "))
  end
end

-- The same of two variables.
local function compare(a, b)
  local n = 0
  if a == b then n = n + 1 end
  if a < b then n = n + 2 end
  if a <= b then n = n + 4 end
  return n
end
for _, a in ipairs(numbers) do
  local out = {}
  for _, b in ipairs(numbers) do
    for _ = 1, 10 do compare(a, b) end
    out[#out + 1] = compare(a, b)
  end
  print(table.concat(out, " "))
end

-- A loop with an integer that a float equals.
local function last(from, to)
  local c = 0
  for i = from, to do
    if i == 2^62 + 1024 then c = c + 1 end
    if i ~= 4611686018427388928.0 then c = c + 1000 end
  end
  return c
end
print(last((1 << 62) + 900, (1 << 62) + 1200))
