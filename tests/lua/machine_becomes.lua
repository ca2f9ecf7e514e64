-- Variables that are integers where a loop begins and floats whenever it comes round; the loops are long enough for the interpreter to do the first round.
local function spigot(n)
  local len = 10 * n // 3 + 2
  local a, out, held = {}, {}, nil
  for i = 1, len do a[i] = 2 end
  for _ = 1, n do
    local carry = 0
    for i = len, 2, -1 do
      local x = a[i] * 10 + carry
      local d = 2 * i - 1
      local r = x % d
      a[i] = r
      carry = (x - r) / d * (i - 1)
    end
    local x = a[1] * 10 + carry
    a[1] = x % 10
    held = x // 10 > 9 and 1 or held
    out[#out + 1] = tostring(x // 10)
  end
  return table.concat(out, " "), held
end
print(spigot(60))
print(spigot(30))

-- What comes out of no rounds, of one, of many: the kind is that of the last round.
local function sum(n, step)
  local s = 0
  for i = 1, n do s = s + i * step end
  return s, math.type(s)
end
for _ = 1, 3 do
  for _, n in ipairs { 0, 1, 2, 500, 0, 1000 } do print(n, sum(n, .5)) end
end
for _, n in ipairs { 0, 3, 500 } do print(n, sum(n, 1)) end

-- A variable that only what follows the loop reads has whatever type.
local function bystander(kind, n)
  local held, s = kind, 0
  for i = 1, n do s = s + i / 2 end
  return held, s
end
for i = 1, 40 do
  local kinds = { 1, 1.5, "s", false, i }
  print(bystander(kinds[i % 5 + 1], 100 + i))
end

-- Nested, with a metamethod in place of the float in between, and an error in the first round.
local V = setmetatable({}, { __add = function(a, b) return type(a) == "number" and a + 1 or b + 1 end })
local function mixed(n, list)
  local s = 0
  for i = 1, n do s = s + list[(i - 1) % #list + 1] end
  return s, math.type(s)
end
print(mixed(600, { 1.5 }))
print(mixed(600, { 1.5, 2 }))
print(mixed(600, { V, 2.5 }))
print(pcall(mixed, 600, { {}, 1.5 }))
print(mixed(600, { 2 }))
