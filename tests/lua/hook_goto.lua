-- Line hooks see a `goto` on a line of its own, and not what it jumps past.
local function trace(src)
  local f = assert(load(src, "=c"))
  local t = {}
  debug.sethook(function(_, l) t[#t+1] = l end, "l")
  f()
  debug.sethook()
  print(table.concat(t, " "))
end
trace [[
local i = 1
::top::
i = i + 1
if i < 4 then
  goto top
end
do
  goto done
end
i = 7
::done::
i = 8
]]
trace [[
local i = 1
goto x
::x::
i = 2
]]
trace [[
for i = 1, 3 do
  if i == 2 then
    goto continue
  end
  local x = i
  ::continue::
end
]]
trace [[
for i = 1, 3 do
  if i == 2 then goto continue end
  local x = i
  ::continue::
end
]]
trace [[
local i = 0
while true do
  i = i + 1
  if i > 3 then
    break
  end
end
]]
trace [[
local i = 0
::again::
do
  local x = i
  local f = function() return x end
  i = i + 1
  if i < 3 then
    goto again
  end
  if i < 5 then goto again end
  if i >= 6 then
  else
    goto
    again
  end
end
]]
trace [[
local i = 0
::again:: i = i + 1
if i < 3 then goto again
elseif i < 4 then
goto again else goto out end
::out::
]]
trace [[
goto a
::b:: goto c
::a::
goto b
::c::
]]
trace [[
do
goto e
local x
::e::
end
]]
trace [[
local i = 1
::a::
goto b
::b::
i = i + 1
if i < 3 then goto a end
]]
trace [[
local i = 1
::a:: i = i + 1; if i < 3 then goto a end
]]
trace [[
local i = 1
while i < 5 do i = i + 1
 if i == 3 then
  goto cont
 end
 if i == 4 then
   break
 end
 ::cont:: end
]]
