-- Hidden variables of loops under debug.setlocal: what has the right type is assigned.
local function state(level)
  local found = {}
  for i = 1, 250 do
    local name, v = debug.getlocal(level + 1, i)
    if not name then break end
    if name == "(for state)" then found[#found + 1] = i end
  end
  return found
end

-- The step of an integer loop.
local seen = {}
for i = 1, 10 do
  seen[#seen + 1] = i
  if i == 3 then
    local s = state(1)
    print(#s, debug.setlocal(1, s[3], 2))
  end
end
print(table.concat(seen, " "))

-- Of a float loop.
seen = {}
for x = 1.0, 3, 0.5 do
  seen[#seen + 1] = x
  if x == 2.0 then print(debug.setlocal(1, state(1)[3], 0.25)) end
end
print(table.concat(seen, " "))

-- Of a generic loop: iterator, what it is passed, and where it is.
seen = {}
local other = { 10, 20, 30 }
for k, v in next, { 1, 2, 3 } do
  seen[#seen + 1] = v
  if v == 1 then print(debug.setlocal(1, state(1)[2], other)) end
end
print(table.concat(seen, " "))
seen = {}
for k, v in next, { 1, 2, 3 } do
  seen[#seen + 1] = v
  if v == 2 then
    print(debug.setlocal(1, state(1)[1], function(_, k) if k < 5 then return k + 1, k * 100 end end))
  end
end
print(table.concat(seen, " "))
seen = {}
for k, v in next, { 1, 2, 3, 4 } do
  seen[#seen + 1] = v
  if v == 1 then print(debug.setlocal(1, state(1)[3], 3)) end
end
print(table.concat(seen, " "))
-- The closing value: what was nil closes nothing, whatever is put there.
seen = {}
for k, v in next, { 1, 2, 3 } do
  seen[#seen + 1] = v
  if v == 2 then print(debug.setlocal(1, state(1)[4], {})) end
end
print(table.concat(seen, " "))
