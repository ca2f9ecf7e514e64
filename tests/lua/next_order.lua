-- The order in which `next` visits small tables whose keys are integers or booleans.
-- stress: no

local function order(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = tostring(k) end
  return table.concat(keys, " ")
end

-- Aliases: the first name that matches wins.
print(order { [0] = "zero", [1] = "one", [2] = "two" })
print(order { [0] = 7, [1] = 7, [2] = 7, [3] = 7, [4] = 7, [5] = 7, [6] = 7 })
print(order { [1] = "jan", [2] = "feb", [3] = "mar", [4] = "apr", [5] = "may", [6] = "jun",
  [7] = "jul", [8] = "aug", [9] = "sep", [10] = "oct", [11] = "nov", [12] = "dec" })
print(order { [12] = "dec", [11] = "nov", [10] = "oct", [3] = "mar", [2] = "feb", [1] = "jan" })
print(order { [-1] = "a", [-2] = "b", [0] = "c", [1] = "d", [2] = "e" })
print(order { "one", "two", [0] = "zero", [-1] = "minus" })
print(order { [0] = "zero", "one", "two", [7] = "seven" })
print(order { [true] = 1, [false] = 0 })
print(order { [100] = 1, [200] = 2, [300] = 3, [400] = 4 })

local function computed(a, b, c) return { [a] = 1, [b] = 2, [c] = 3 } end
print(order(computed(1, 2, 3)), order(computed(3, 2, 1)), order(computed(0, 5, 9)))
print(order(computed(1 << 40, 1 << 50, 1 << 60)), order(computed(-5, math.mininteger, math.maxinteger)))

-- Every set of keys out of eight, stored up and down.
for from = -1, 1 do
  local up, down = {}, {}
  for n = 1, 255 do
    local t, u = {}, {}
    for i = 0, 7 do if n >> i & 1 == 1 then t[from + i * (from == 1 and 3 or 1)] = true end end
    for i = 7, 0, -1 do if n >> i & 1 == 1 then u[from + i * (from == 1 and 3 or 1)] = true end end
    up[#up + 1], down[#down + 1] = order(t), order(u)
  end
  print(from, table.concat(up, ", "))
  print(from, table.concat(down, ", "))
end

-- Keys that come and go.
local seed = 7
local function random(k)
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return seed // 65536 % k
end
for round = 1, 40 do
  local t = {}
  for _ = 1, 60 do
    local key = (random(30) - 5) * (random(2) + 1)
    if random(3) == 0 then t[key] = nil else t[key] = true end
  end
  print(round, order(t))
end
