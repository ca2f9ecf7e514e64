-- Limits of numeric loops that are no integers: fractions, infinities, NaN; integer and float loops, both directions.
local nan, inf = 0/0, math.huge
local function run(first, limit, step)
  local out = {}
  for i = first, limit, step do
    out[#out + 1] = tostring(i)
    if #out == 3 then out[#out + 1] = "..."; break end
  end
  return #out == 0 and "-" or table.concat(out, " ")
end
local firsts = { 4, 1, -4, math.maxinteger, math.mininteger, 4.0, -4.5, inf, -inf, nan }
local limits = { nan, -nan, inf, -inf, 2.5, -2.5, 4.999, 2^53, -2^63, 2^63, 1e308, -1e308, math.mininteger, math.maxinteger, 4, 3.0 }
local steps = { 1, -1, 3, -3, math.maxinteger, math.mininteger, 1.0, -1.0, 0.5, inf, -inf, nan }
for _, first in ipairs(firsts) do
  for _, limit in ipairs(limits) do
    local row = {}
    for _, step in ipairs(steps) do row[#row + 1] = run(first, limit, step) end
    print(first, limit == limit and limit or "nan", table.concat(row, "|"))
  end
end
-- constants in the loop's head
local n = 0
for i = 4, 0/0, -1 do n = n + 1; if n == 3 then break end end
for i = 4, 0/0, 1 do n = n + 10 end
for i = 4, -(0/0), -1 do n = n + 100; if n > 250 then break end end
print(n)
for _, bad in ipairs { "x", {}, true } do
  print(pcall(run, 1, bad, 1)); print(pcall(run, bad, 1, 1)); print(pcall(run, 1, 2, bad))
end
print(pcall(run, 1, "10", 1))
print(pcall(run, 1, 2, 0)); print(pcall(run, 1.0, 2, 0)); print(pcall(run, 1, nan, 0)); print(pcall(run, 1, 2, 0.0)); print(pcall(run, 1, 2, -0.0))
