-- A loop that is hot in one domain gives tables a field in another one, which has never had a field of that name.
local pl = require "perilune"

local function give(list, v)
  for i = 1, #list do
    list[i].given_here_first = v
  end
end
-- Tables that have grown, and have room for more.
local function lists(n)
  local list = {}
  for i = 1, n do
    local t = { base = i }
    t.grown = i
    list[i] = t
  end
  return list
end
for round = 1, 20 do give(lists(100), round) end
for _, calls in ipairs { 0, 8, 13, 20, 50, 1000 } do
  print(pl.domain.spawn(function()
    local list, names = lists(3), {}
    -- It is hot here, too, and has given no field yet.
    for _ = 1, calls do give({}, 1) end
    give(list, 5)
    -- Before anything else has asked for the fields' names.
    local first, raw, other = list[1].given_here_first, rawget(list[2], "given_here_first"), list[3]["given_" .. "here_first"]
    for k in pairs(list[2]) do names[#names + 1] = k end
    table.sort(names)
    return first, raw, other, table.concat(names, " ")
  end):join())
end
