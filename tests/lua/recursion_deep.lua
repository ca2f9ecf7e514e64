-- 190000 levels of Lua calls are within the limit; what lies beyond is an error that can be caught, again and again.
local function sum(n) if n == 0 then return 0 end return n + sum(n - 1) end
print(sum(150000), sum(190000))
local function inf(n) return 1 + inf(n + 1) end
for i = 1, 5 do local ok, e = pcall(inf, 1); print(ok, e:match("stack overflow")) end
print(sum(150000))
local co = coroutine.wrap(function() return sum(150000), select(2, pcall(inf, 1)):match("stack overflow"), sum(100000) end)
print(co())
