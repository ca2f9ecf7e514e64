-- Building strings: `..` of several parts, growing a string by appending, table.concat with a separator, rep.
-- bench: group=strings size=1300000 quick=90000
local n = tonumber(arg and arg[1]) or 1300000

local length = 0
for i = 1, n do
  local s = "item " .. i .. ": " .. (i % 7) .. ";"
  length = length + #s
end
local parts = {}
for i = 1, n do parts[i] = i % 100 end
local joined = table.concat(parts, ",")
local commas = select(2, joined:gsub(",", ","))
assert(commas == n - 1)
length = length + #joined

for round = 1, n / 1000 do
  local s = ""
  for i = 1, 300 do s = s .. (i % 10) end
  assert(#s == 300 and s:sub(11, 13) == "123")
  length = length + #s + #(("-="):rep(round % 50))
end
local result = string.format("build_concat %d", length)
local known = { [90000] = "build_concat 1540983", [1300000] = "build_concat 23912595" }
assert(not known[n] or result == known[n], result)
print(result)
