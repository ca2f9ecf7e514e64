-- Comparisons between integers and floats where a float has no exact neighbour.
local maxi, mini = math.maxinteger, math.mininteger
local ints = { mini, mini + 1, -(1 << 53) - 1, -(1 << 53), -(1 << 53) + 1, -1, 0, 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, maxi - 1, maxi }
local floats = { -math.huge, -2^64, -2^63 - 2048, -2^63, -2^53 - 2, -2^53, -1.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2^53, 2^53 + 2, 2^63 - 1024, 2^63, 2^64, math.huge, 0/0 }
local function bits(i, f)
  local r = ""
  for _, b in ipairs { i < f, i <= f, i > f, i >= f, i == f, i ~= f, f < i, f <= i, f > i, f >= i, f == i } do
    r = r .. (b and "1" or "0")
  end
  return r
end
for _, i in ipairs(ints) do
  local row = {}
  for _, f in ipairs(floats) do row[#row + 1] = bits(i, f) end
  print(i, table.concat(row, " "))
end
-- as table keys: floats with integral values are the integers
local t = {}
t[1.0] = "one"; t[2^53] = "big"; t[-0.0] = "zero"
print(t[1], t[1 << 53], t[0], next({ [3.0] = true }))
print(math.type(next({ [3.0] = true })), math.type(next({ [3.5] = true })))
t[2^63] = "float key"
print(t[2^63], t[maxi], t[mini])
t[maxi] = "maxi"; t[mini] = "mini"
print(t[2^63], t[maxi], t[mini], t[-2^63])
-- sorting a mixture
local mix = { 3, 2.5, -1, 2^53, (1 << 53) + 1, -0.0, 1e300, maxi, mini, 2^63, -math.huge, math.huge, 0.1 }
table.sort(mix)
for i, v in ipairs(mix) do io.write(tostring(v), i < #mix and " " or "\n") end
-- in control flow, constants on either side
local function f(x)
  local r = {}
  if x < 1 then r[#r + 1] = "<1" end
  if x < 1.5 then r[#r + 1] = "<1.5" end
  if 1 < x then r[#r + 1] = "1<" end
  if 1.5 <= x then r[#r + 1] = "1.5<=" end
  if x == 1 then r[#r + 1] = "==1" end
  if x ~= 1.0 then r[#r + 1] = "~=1.0" end
  if x >= 2 then r[#r + 1] = ">=2" end
  if x > -1 then r[#r + 1] = ">-1" end
  if not (x > 100000) then r[#r + 1] = "not>100000" end
  return table.concat(r, " ")
end
for _, x in ipairs { 1, 1.0, 1.5, 2, -1, 0.5, 0/0, math.huge, maxi, 2^53, "skip" } do
  if x ~= "skip" then print(x ~= x and "nan" or x, f(x)) end
end
print(pcall(f, "1"))
print("a" < "b", "a" < "B", "" < "a", "a" < "aa", "Z" < "a", "a\0b" < "a\0c", "a\0" > "a", "10" < "9")
print("a" <= "a", "b" >= "a", "a" == "a", "a\0b" == "a\0b", "a" ~= "b", "" == "")
