-- A dictionary under insertion and deletion at the same rate: a window of live keys that moves on, keys made at
-- run time, deletion while traversing.
-- bench: group=dictionaries size=350000 quick=25000
local n = tonumber(arg and arg[1]) or 350000

local window, live = {}, 0
for i = 1, n do
  window["id" .. i % 20000] = i
  live = live + 1
  if i > 1000 then
    local old = "id" .. (i - 1000) % 20000
    if window[old] then
      window[old] = nil
      live = live - 1
    end
  end
end
local count, sum = 0, 0
for _, v in pairs(window) do count = count + 1; sum = sum + v end
assert(count == live)
for k, v in pairs(window) do
  if v % 2 == 0 then window[k] = nil; count = count - 1 end
end
local odd = 0
for _, v in pairs(window) do assert(v % 2 == 1); odd = odd + 1 end
assert(odd == count)
print(string.format("churn %d %d", sum, odd))
