-- Domains get code that another one has made, for tables with fields whose names they have not met: they know
-- them as soon as they have the code.
local pl = require "perilune"

local Point = {}
Point.__index = Point
local function new(x, y)
  local self = setmetatable({}, Point)
  self.abscissa, self.ordinate = x, y
  self.weight = 1
  return self
end
local function record(n) return { identity = n, parity = n % 2 } end
-- Not made where the program does, unless somebody looks.
local function parts(n)
  local t = {}
  t.quotient, t.remainder = n // 7, n % 7
  return t.quotient + t.remainder
end

-- The first one that it makes, if it makes few.
local function work(n)
  if n == 1 then return 1, new(1, -1), record(1) end
  local sum, last, row = 0, nil, nil
  for i = 1, n do
    last, row = new(i, -i), record(i)
    sum = sum + last.abscissa + row.parity + parts(i)
  end
  return sum, last, row
end

local function told(n)
  local sum, last, row = work(n)
  -- By strings that are made here, before anybody asks for the names of fields.
  local by = last["absc" .. ("issa"):sub(1)] + last[("ordinate"):rep(1)] * 3 + row[table.concat { "ident", "ity" }]
  local names = {}
  for name in pairs(last) do names[#names + 1] = name end
  for name in pairs(row) do names[#names + 1] = name end
  table.sort(names)
  return sum, by, table.concat(names, " "), rawget(last, "weight"), next({ [names[1]] = 1 })
end

for _ = 1, 40 do told(1) end
print("first", told(3000))
for round = 1, 3 do
  print("domain " .. round, pl.domain.spawn(function() return told(round == 1 and 1 or 3000) end):join())
end
