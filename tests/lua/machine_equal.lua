-- Tables compared where machine code knows that their metatables have no __eq; one gets it midway, another loses it.
local Plain, Other = {}, {}
Plain.__index = Plain
local function same(a, b) return a == b end
local function count(list, wanted)
  local n = 0
  for i = 1, #list do
    if list[i] == wanted then n = n + 1 end
    if list[i] ~= wanted then n = n + 1000 end
  end
  return n
end

local list = {}
for i = 1, 40 do list[i] = setmetatable({ id = i }, i % 3 == 0 and Other or Plain) end
list[41] = {}
local n = 0
for i = 1, 300 do n = n + count(list, list[i % 41 + 1]) end
print(n, same(list[1], list[2]), same(list[1], list[1]), same(list[41], list[1]), same(list[1], 1))

-- __eq is assigned to a metatable that was known to have none.
local asked = 0
Plain.__eq = function(a, b) asked = asked + 1; return a.id == b.id end
print(count(list, setmetatable({ id = 4 }, Plain)), asked)
print(same(list[4], setmetatable({ id = 4 }, Plain)), same(list[3], setmetatable({ id = 3 }, Other)), same({ id = 4 }, list[4]), same(list[3], list[4]))
asked = 0
for i = 1, 300 do n = n + count(list, list[41]) end
print(n, asked)
-- And taken away.
Plain.__eq = nil
for i = 1, 50 do n = n + count(list, list[41]) end
print(n, asked, same(list[4], setmetatable({ id = 4 }, Plain)))
-- By rawset, into the other one.
rawset(Other, "__eq", function() return true end)
print(count(list, list[3]), same(list[3], list[1]), same(list[1], list[3]), same(list[41], list[3]), same(list[1], list[2]))
rawset(Other, "__eq", nil)
print(count(list, list[3]), same(list[3], list[1]))

-- A metatable is put on, and taken off, midway.
local Loud = { __eq = function(a, b) error("compared", 0) end }
for i = 1, 100 do
  if i == 60 then setmetatable(list[41], Loud) end
  if i == 70 then setmetatable(list[41], nil) end
  local ok, what = pcall(count, list, list[41])
  if i % 10 == 5 then print(i, ok, what) end
end

-- It yields.
local Waits = { __eq = function(a, b) return coroutine.yield(a.id) end }
local x, y = setmetatable({ id = 1 }, Waits), setmetatable({ id = 2 }, Waits)
local co = coroutine.wrap(function()
  local n = 0
  for i = 1, 100 do if x == y then n = n + 1 end end
  return "done", n
end)
local got, calls = co(), 0
while got ~= "done" do calls = calls + 1; got = co(calls % 3 == 0) end
print(calls)

-- Tail calls of functions of Lua, of the library, and of tables that are called, in turn.
local called = setmetatable({}, { __call = function(_, v) return v * 2 end })
local targets = { function(v) return v + 1 end, math.abs, called, tostring, function(...) return select("#", ...) end }
local function forward(f, v) return f(v) end
local sum = 0
for i = 1, 2000 do sum = sum + forward(targets[i % 5 + 1], -i) end
print(sum)
print(pcall(forward, nil, 1))
print(pcall(function() for i = 1, 300 do forward(i < 290 and math.abs or error, "5") end end))
