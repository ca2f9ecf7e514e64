-- Loops go back in one place; captured variables are closed on every way out.
for i = 1, 10 do f(i) end
for i = 10, 1, -1 do
  local c = i
  if c == 5 then break end
  if c == 6 then goto continue end
  g = function() return c end
  ::continue::
end
for k, v in pairs(t) do
  if v then break end
  g = function() return k end
  if k then return k, v end
end
for a, b, c, d, e in next, t do f(a) end
while x do
  local y = x
  g = function() return y end
  if y then break end
end
repeat
  local z = x
  g = function() return z end
until z
do
  ::top::
  local w = x
  if w then goto top end
  g = function() return w end
  goto top
end
for i = 1, 2 do
  for k in next, t do
    if k then goto continue end
    if i then
      goto continue
    end
    f(k)
  end
  ::continue::
end
