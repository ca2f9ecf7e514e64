-- Where a metatable has no __le, `a <= b` is `not (b < a)`, as it is in the reference as it is usually built.
local log = {}
local mt = {__lt = function(a, b)
  log[#log + 1] = (type(a) == "table" and a.n or a) .. "<" .. (type(b) == "table" and b.n or b)
  return (type(a) == "table" and a.n or a) < (type(b) == "table" and b.n or b)
end}
local function new(n) return setmetatable({n = n}, mt) end
local function all(a, b)
  local le = a <= b
  local ge = a >= b
  if a <= b then log[#log + 1] = "le" else log[#log + 1] = "gt" end
  if not (a >= b) then log[#log + 1] = "lt" end
  return le, ge, a < b, a > b
end
for i = 1, 100 do
  local o = new(5)
  log = {}
  local r = {all(o, new(i % 9))}
  if i > 91 then print(i, table.concat(log, " "), r[1], r[2], r[3], r[4]) end
end
local function with_constants(o) return o <= 5, o >= 5, 5 <= o, 5 >= o, o <= 4.5 end
for i = 1, 100 do
  log = {}
  local r = {with_constants(new(i % 9))}
  if i > 91 then print(i, table.concat(log, " "), table.unpack(r)) end
end
-- It may yield, and what it is resumed with is negated.
local co = coroutine.wrap(function()
  local o = setmetatable({}, {__lt = function() return coroutine.yield("lt") end})
  for i = 1, 50 do
    if o <= o then coroutine.yield("le") else coroutine.yield("not") end
  end
  return "end"
end)
print(co())
for i = 1, 4 do print(i, co(i % 2 == 0), co()) end
-- An error names the metamethod, and the operands in their order.
local function tried(f, ...) return select(2, xpcall(f, debug.traceback, ...)):gsub("0x%x+", "ADDR") end
local bad = setmetatable({}, {__lt = function() error("no order") end})
local function le(a, b)
  local r = a <= b
  return r
end
print((tried(le, bad, 1)))
print((tried(le, {}, 1)))
print((tried(le, 1, {})))
-- Once there is an __le it is what decides, and when it is gone it decides no more.
local o = new(1)
for i = 1, 60 do
  if i == 20 then mt.__le = function() return "le" end elseif i == 40 then mt.__le = nil end
  log = {}
  local r = le(o, new(0))
  if i % 10 == 0 then print(i, r, #log) end
end
print(pcall(table.sort, {new(3), new(1), new(2)}, function(a, b) return not (b <= a) end))
