-- Tables that have a field themselves, which is nil, inherit it; once it has a value they do not, and tables of other
-- shapes do. What is recorded first runs under a hook, interpreted.
local inherits = { __index = { z = 2.5 }, __newindex = function(t, k, v) rawset(t, k, v) end }
local function upto(n)
  return coroutine.wrap(function() for j = 1, n do coroutine.yield(j) end end)
end
local turn = 0
local function add(from, to, flag, x)
  local twice = x * 3
  local r, w = 0, ""
  for _ in upto(1) do
    to.z = (twice + twice) r = (r + (from.z or 3)) % 9973
  end
  if r % 4 == 1 then return add(to, to, nobody, x) end return r, w, (turn % 12 ~= 0)
end
local function forget(t)
  local same = setmetatable(t, inherits)
  t.z = nil
end
local function hooked(f, ...)
  debug.sethook(function() end, "l")
  local function take(...) debug.sethook() return ... end
  return take(pcall(f, ...))
end
local T = {
  { 3, 1, 2, name = "a", x = 1, y = 2 },
  { 5, 4, 6, 7, name = "b", x = 4, y = 5 },
  { 0.5, x = 2.5, y = 1, z = 3, name = "c" },
}
local results = {}
local function note(...)
  results[#results + 1] = tostring((...)) .. " " .. tostring((select(2, ...)))
end
for i = 1, 102 do
  local from, to = (i < 31 or i % 2 ~= 1) and T[2] or T[3], i < 31 and T[2] or T[1]
  note(hooked(add, from, to, not (i < 31 or i % 4 ~= 0), (i < 31 or i % 3 ~= 1) and 0 or i % 2 + 0.5))
end
for i = 1, 103 do forget((i < 30 or i % 6 ~= 0) and T[2] or T[1]) end
for i = 1, 101 do
  local from, to = i < 38 and T[2] or T[1], (i < 38 or i % 7 ~= 0) and T[1] or T[1 + i % 3]
  note(pcall(add, from, to, not (i < 38), i))
end
for i, result in ipairs(results) do print(i, result) end
