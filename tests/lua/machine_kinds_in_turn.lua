-- A variable that is an integer, then a float, then an integer again in each round of a loop, while garbage is
-- collected: it comes out as what it is.

local pad = ("x"):rep(120)

local function numbers(n, a, c)
  local v = 1
  for k = 1, n do
    v = c * 5.0
    v = tonumber(a .. "0")
  end
  return v
end

local function kinds(n, c)
  local v, ints, floats = 1, 0, 0
  for k = 1, n do
    v = c * 5.0
    v = #(pad .. k) - 120
    if math.type(v) == "integer" then ints = ints + 1 else floats = floats + 1 end
  end
  return v, ints, floats
end

local function tables(n)
  local v, sum = {}, 0
  for k = 1, n do
    v = k * 0.5
    local s = pad .. k
    v = { k, s }
    sum = sum + v[1]
    v = tonumber(#s .. "")
  end
  return v, sum
end

local function either(n, f)
  local v = 0
  for k = 1, n do
    v = v + (k % 4 == 0 and f or 1)
    local s = pad .. k
    v = tonumber(#s + k .. "")
    if k % 8 == 3 then v = v / 2 end
  end
  return v
end

local function text(...)
  local out = { ... }
  for i, x in ipairs(out) do out[i] = math.type(x) .. " " .. x end
  return table.concat(out, ", ")
end
local seen, order = {}, {}
for round = 1, 700 do
  local line = table.concat({ text(numbers(200, 123456789012345, 5)), text(numbers(12, 1234.5, 5)), text(kinds(12, 2)),
    text(tables(12)), text(either(16, 0.5)), text(either(15, 2)) }, "; ")
  if not seen[line] then order[#order + 1] = line end
  seen[line] = true
end
for _, line in ipairs(order) do print(line) end
