-- A debugger finds tables that machine code has not made.
local function find(level, name)
  for n = 1, 50 do
    local k, v = debug.getlocal(level, n)
    if not k then return nil end
    if k == name then return v end
  end
end
local function look() local t = find(3, "p") return t and t.x end
local function run(n)
  local s = 0
  for i = 1, n do
    local p = { x = i, y = 2 }
    local q = { x = p.x + p.y }
    if i % 10 == 0 then s = s + look() end
    s = s + q.x
  end
  return s
end
print(run(100))
local seen = 0
local function hooked(n)
  local s = 0
  for i = 1, n do
    local p = { x = i }
    if i == 50 then
      debug.sethook(function() local t = find(3, "p") if t then seen = seen + t.x end end, "", 7)
    end
    if i == 60 then debug.sethook() end
    s = s + p.x
  end
  return s
end
print(hooked(100), seen > 0)
