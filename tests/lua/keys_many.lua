-- More strings made at run time, and used as keys again and again, than any cache holds.
-- stress: no
local many, names, seen = {}, {}, 0
for i = 1, 40000 do many["k" .. i] = i; names[i] = "k" .. i end
for _ = 1, 3 do
  for i, k in ipairs(names) do
    local k2 = k
    if many[k] == i and many[k2] == i then seen = seen + 1 end
  end
end
print(seen)
