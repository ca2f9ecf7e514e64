-- A value is of a known type on one way to a place, and of an unknown one on another: behind it it is what it was, also for the interpreter.

bad = {}
Vec = {}
Vec.__index = function(o, k) return o[1] end
function new(n) return setmetatable({ n }, Vec) end
Vec.__lt = function() end
Base = {}
Base.__eq = function(a, b) return a.n == b.n end
for i = 1, 3000 do
  if (new < new()) or i then
    if setmetatable({}, Base) ~= new(i) then else bad[#bad + 1] = i end
  end
end
print(#bad, table.concat(bad, " "))

-- The same for results that are floats, or of changing types, of fields, keys and operators.
local function run(of)
  local count = 0
  local Odd = { __index = function(o, k) return of(k == "n" and o[1] or k) end, __add = function(a, b) return of(a[1]) end }
  local Plain = {}
  Plain.__eq = function(a, b) return a.n == b.n end
  Plain.__lt = function(a, b)
    local x, y = nil, b.n
    return x == y
  end
  local function make(n) return setmetatable({ n }, Odd) end
  for i = 1, 1500 do
    local o = make(i)
    if setmetatable({}, Plain) == o then count = count + 1 end
    if setmetatable({}, Plain) < o then count = count + 1 end
    local x, y = nil, o + o
    if x == y then count = count + 1 end
    x, y = nil, o[i + 10]
    if x == y then count = count + 1 end
    if i % 100 == 0 then collectgarbage("step") end
  end
  return count
end
print(run(function(v) return v end))
print(run(function(v) return v + 0.5 end))
print(run(function(v) if v > 700 then return v + 0.5 end return v end))
print(run(function(v) if v % 10 == 0 then return nil end return v end))
print(run(function(v) if v % 2 == 0 then return tostring(v) end return v end))
