-- What `math` has had since before 5.3, and what machine code makes of it.
local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = math.type(t[i]) == "float" and string.format("%a", t[i]) or tostring(t[i]) end
  return table.concat(t, " ")
end
local function round(x) return string.format("%.13g", x) end
local values = { 0.0, -0.0, 1, 8, -2.5, 0.1, 1e10, 2^52, 2^1023, -2^1023 * 1.5, 2^-1022, 2^-1023, 2^-1074, 3 * 2^-1074, 1e-320, "16", 1 / 0 }
for _, x in ipairs(values) do
  print("frexp", show(x), show(math.frexp(x)))
  for _, e in ipairs { 0, 1, -1, 10, 1023, 1024, 1100, -1022, -1050, -1074, -1080, -2000, 2200, "3", 4.0, 1 << 31, 1 << 32, math.mininteger } do
    print("ldexp", show(x), e, show(math.ldexp(x, e)))
  end
end
for _, x in ipairs { 0, 0.5, -1.25, 3, "2", 1 / 0, -1 / 0 } do
  print(round(math.cosh(x)), round(math.sinh(x)), round(math.tanh(x)), round(math.log10(math.abs(x))))
  print(show(math.pow(x, 2)), round(math.pow(2, x)), round(math.pow(x, 0.5)), show(math.pow(x, 0)))
end
for _, f in ipairs { "cosh", "sinh", "tanh", "log10", "pow", "frexp", "ldexp" } do
  print(f, pcall(math[f]))
  print(f, pcall(math[f], "x", 1))
  print(f, pcall(math[f], 1, {}))
end
print(pcall(math.ldexp, 1, 1.5))
local sum = 0
for i = 1, 2000 do
  local m, e = math.frexp(i)
  assert(math.ldexp(m, e) == i and m >= 0.5 and m < 1)
  sum = sum + math.pow(i, 2) + math.log10(i) + math.cosh(1 / i) + math.tanh(i)
end
print(round(sum))
