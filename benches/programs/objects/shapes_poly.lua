-- One call site that meets eight classes (megamorphic), another that meets two, and getters in between.
-- bench: group=objects size=6000 quick=350
local n = tonumber(arg and arg[1]) or 6000

local classes = {}
for k = 1, 8 do
  local C = {}
  C.__index = C
  function C.new(a, b)
    local o = { a = a, b = b }
    if k % 2 == 0 then o["extra" .. k] = k end
    return setmetatable(o, C)
  end
  function C:area() return self.a * self.b + k end
  function C:width() return self.a end
  function C:grow() self.a = self.a + 1; return self end
  classes[k] = C
end

local all, two = {}, {}
for i = 1, 1000 do
  all[i] = classes[i % 8 + 1].new(i % 10, i % 7)
  two[i] = classes[i % 2 + 1].new(i % 10, i % 7)
end
local sum = 0
for round = 1, n do
  for i = 1, #all do
    local o = all[i]
    sum = sum + o:area()
    if i % 100 == round % 100 then o:grow() end
  end
  for i = 1, #two do sum = sum + two[i]:width() end
end
local check, widths = 0, 0
for i = 1, #two do widths = widths + two[i].a end
for i = 1, #all do check = check + all[i].a end
local grown = 0
for round = 1, n do for i = 1, #all do if i % 100 == round % 100 then grown = grown + 1 end end end
local start = 0
for i = 1, 1000 do start = start + i % 10 end
assert(check == start + grown and widths == start)
local result = string.format("shapes_poly %d %d", sum, check)
local known = { [350] = "shapes_poly 9707186 8000", [6000] = "shapes_poly 675416760 64500" }
assert(not known[n] or result == known[n], result)
print(result)
