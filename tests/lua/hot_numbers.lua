-- A variable that has held numbers of both kinds gets results of operands that are integers alone.

local function f(n)
  local x = 0
  local s = 0
  for i = 1, n do
    if i % 3 == 0 then x = x + 0.5 end
    s = s + x
    x = i + s // 1
    x = i * i
    x = -i
    x = i + 1
    if i % 5 == 0 then x = x * 1.5 end
  end
  return x, s
end

local function g(n)
  local x = 0
  for i = 1, n do
    local y = x
    x = i + n
    if i % 2 == 0 then x = y + 0.5 end
    x = n - i
    if i % 7 == 0 then x = y * 0.5 end
  end
  return x
end

for _ = 1, 5 do
  print(f(60))
  print(g(60))
end
