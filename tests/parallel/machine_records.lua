-- Machine code and records of arrays: an element and its field may be read by one instruction of the interpreter.
local pl = require "perilune"
local many = pl.array({ hits = "i64", last = "string", share = "f64" }, 16)
for i = 1, #many do
  many[i].hits = i * 10
  many[i].last = "row " .. i
  many[i].share = i / 4
end
local function total(a)
  local sum, work = 0, 0
  for i = 1, #a do
    for j = 1, 30 do work = work + (i ~ j) % 7 end
    sum = sum + a[i].hits
  end
  return sum, work
end
for _ = 1, 40 do total(many) end
print(total(many))
local function shares(a)
  local sum = 0.0
  for round = 1, 20 do
    for j = 1, 50 do sum = sum + j % 3 end
    local row = a[round % #a + 1]
    sum = sum + row.share + a[round % #a + 1].share
  end
  return sum
end
for _ = 1, 40 do shares(many) end
print(shares(many))
local same = true
for i = 1, 16 do same = same and many[i].hits == i * 10 and many[i].last == "row " .. i end
print(same, many.hits:sum())
print(select(2, pcall(function()
  local sum = 0
  for i = 1, 200 do sum = sum + i % 5 + many[i % 18].hits end
  return sum
end)))
-- Tables where there were records, and records where there were tables.
local mixed = { many, {} }
for i = 1, 16 do mixed[2][i] = { hits = -i * 10 } end
local sum = 0
for round = 1, 60 do
  local a = mixed[round % 2 + 1]
  for i = 1, 16 do sum = sum + a[i].hits + round end
end
print(sum)
