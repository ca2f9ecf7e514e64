-- Conditions are jumps; values appear only where they are wanted.
local a, b, c = ...
if a and b or not c then f() end
if not (a == b) then f() elseif a ~= nil then g() else h() end
local v = a and b
v = a or b or c
v = a and b < 3
v = not a
v = not (a < b and 3 <= c)
v = a > b
v = 10 > a
v = a == "x" or a == 1.5 or a == true
v = false and a
v = nil and a
v = 1 and a
while a do if b then break end end
while not (a <= 1) do f() end
while true do if a then goto out end end
::out::
repeat until a
repeat f() until true
return a and b or c, a == b
