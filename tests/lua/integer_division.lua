-- Floor division and modulo of integers, by registers and constants, over all signs and sizes.
local vals = {0,1,-1,2,-2,3,-3,7,-7,8,-8,100,-100,2^31|0,-(2^31|0),2^32|0,(2^32|0)+1,-(2^32|0)-1,math.maxinteger,math.mininteger,math.maxinteger-1,math.mininteger+1,1<<62,-(1<<62), 12345678901234, -98765432109876}

for _, a in ipairs(vals) do for _, b in ipairs(vals) do
  if b ~= 0 then print(a, b, a // b, a % b, load("local a = ... return a // "..string.format("%d", b):gsub("^-9223372036854775808$", "math.mininteger")..", a % "..string.format("%d", b):gsub("^-9223372036854775808$", "math.mininteger"))(a)) end
end end
for _, a in ipairs(vals) do print(pcall(function() return a // 0 end)); print(pcall(function() return a % 0 end)) print(a // 0.0, a % 0.0, a // -2.0, a % -2.0, a % 2.5, a//2.5) end
