-- Functions that use globals and the library without local names for them, in domains whose globals lie in different
-- places of their tables, and change: the machine code is the same for all.
local pl = require "perilune"

local function work(number, rounds)
  -- Another number of globals in each domain, so that their table has another size, or another order.
  for i = 1, number * 7 do _G["filler" .. i * number] = i end
  counter = 0
  function step(x) counter = counter + 1 return math.floor(math.abs(x) * 1.5) + math.max(x, 3) + string.len("ab") end
  local function run(n)
    local s = 0
    for i = 1, n do
      s = s + step(i % 50 - 25) % 17 + #tostring(i)
      if type(s) ~= "number" then s = select(1, s) end
    end
    return s
  end
  local sums = {}
  for r = 1, rounds do
    sums[#sums + 1] = run(40)
    if r == rounds // 2 then
      -- The table grows while the code runs, and so does the library's.
      for i = 1, 60 do _G["more" .. i] = i end
      for i = 1, 20 do math["extra" .. i] = i end
    elseif r == rounds // 2 + 2 then
      local floor = math.floor
      math.floor = function(x) return floor(x) + 1 end
    elseif r == rounds // 2 + 4 then
      step = function(x) counter = counter + 2 return x end
    elseif r == rounds // 2 + 6 then
      string.len, math.floor = nil, nil
      tostring = function() return "four" end
    elseif r == rounds // 2 + 8 then
      collectgarbage()
      counter = 0.5
    elseif r == rounds // 2 + 10 then
      setmetatable(_G, { __index = function(_, name) return name == "type" and function() return "text" end or nil end })
      type = nil
    end
  end
  return table.concat(sums, " "), counter
end

local first = work
local results, domains = {}, {}
for number = 1, 5 do
  domains[number] = pl.domain.spawn(first, number, 60)
end
for number = 1, 5 do results[number] = table.pack(domains[number]:join()) end
for number = 1, 5 do
  print(number, results[number][1] == results[1][1], results[number][2])
end
print(results[1][1])
print(work(3, 60))
