-- Several bytes of a string at once: all there, at the ends, from the end, and what is no position.
local byte = string.byte
local function f(s, i, j) local a, b, c = byte(s, i, j) return (a or -1) * 65536 + (b or -2) * 256 + (c or -3) end
local function g(s, i, j) local a, b = s:byte(i, j) return (a or -1) * 256 + (b or -2) end
local s = "hello world, these are some bytes \255\0\1"
local sum = 0
local function mix(x) sum = (sum * 31 + x) % 1000000007 end
for r = 1, 300 do
  for i = 1, #s - 2 do mix(f(s, i, i + 2)) mix(g(s, i, i + 1)) end
end
print(sum)
for _, i in ipairs { 1, 0, -1, -2, -3, -100, #s - 2, #s - 1, #s, #s + 1, math.maxinteger, math.maxinteger - 1, math.mininteger, 5 } do
  for _, j in ipairs { 1, 2, 3, 0, -1, -2, #s, #s + 1, math.maxinteger, math.mininteger, 7, 8 } do
    for r = 1, 3 do mix(f(s, i, j)) mix(g(s, i, j)) end
    print(i, j, f(s, i, j), g(s, i, j))
  end
end
for r = 1, 200 do for i = 1, #s do mix(f(s, i, i + 2)) mix(g(s, i, i + 1)) end end
print(sum)
print(pcall(f, nil, 1, 3)); print(pcall(f, 12345, 1, 3)); print(f("abc", 1.0, 3.0)); print(pcall(f, "abc", 1.5, 3))
