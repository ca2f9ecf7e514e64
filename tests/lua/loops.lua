-- Numeric for at the limits, float steps, generic for, while, repeat, break, goto continue.
local maxi, mini = math.maxinteger, math.mininteger
local function run(a, b, c, lim)
  local n, out = 0, {}
  for i = a, b, c or 1 do n = n + 1; out[#out + 1] = tostring(i); if n >= (lim or 10) then out[#out + 1] = "..." break end end
  print(n, table.concat(out, " "))
end
run(1, 3); run(3, 1); run(1, 0); run(1, 1); run(3, 1, -1); run(1, 3, -1); run(1, 10, 4); run(10, 1, -4)
run(maxi - 2, maxi); run(mini, mini + 2); run(maxi, maxi); run(mini, mini); run(mini + 2, mini, -1); run(maxi, maxi - 2, -1)
run(maxi - 1, maxi, 2); run(mini + 1, mini, -2); run(mini, maxi, maxi); run(maxi, mini, mini); run(0, maxi, maxi); run(1, mini, mini); run(-1, mini, mini)
run(1, 3.9); run(1, 2.5); run(1, math.huge, 1, 3); run(1, -math.huge); run(-1, -math.huge, -1, 3); run(3, 1.1, -1); run(1, 0/0); run(1, 1e308, 1, 3); run(1, -1e308)
run(maxi, maxi + 1.0); run(maxi - 1, 2^63, 1); run(mini, -2^63); run(mini, -2^64); run(mini + 1, -2^64, -1)
run(1.0, 3); run(1, 3, 1.0); run(1.0, 3.0, 0.5); run(0.1, 1, 0.3); run(3.0, 1, -1); run(1.0, 0); run(0/0, 1); run(1.0, 0/0); run(1.0, math.huge, 1, 3); run(math.huge, math.huge, 1, 3); run(-math.huge, 0, 1, 3)
run(1, 2, 0.25); run(2^53, 2^53 + 4, 1, 5); run(0.0, -0.0); run(1, 3, math.huge); run(3, 1, -math.huge); run(1, 2, 1e-1)
for _, src in ipairs { "for i = 1, 10, 0 do end", "for i = 1.0, 10, 0 do end", "for i = 1, 10, 0.0 do end", "for i = 'a', 10 do end", "for i = 1, 'x' do end", "for i = 1, 2, {} do end", "for i = nil, 1 do end", "for i = 1, nil do end", "for i = 1, 2, nil do end", "for i = '1', 2 do end", "for i = 1, '2' do end", "for i = 1, 2, '1' do end", "for i = {}, 1 do end", "for i = 1.5, 'x' do end" } do
  print(pcall(load(src, "=l")))
end
-- the bounds are evaluated once, the control variable is a copy
local calls = 0; local function lim() calls = calls + 1; return 3 end
for i = 1, lim() do i = i * 10; io.write(i, " ") end print(calls)
-- generic for
for i, v in ipairs({ "a", "b", nil, "d" }) do io.write(i, v, " ") end print()
local function iter(s, c) c = c + 1; if c <= s then return c, c * c end end
for a, b in iter, 4, 0 do io.write(a, ":", b, " ") end print()
for a in iter, 3, 0 do io.write(a, " ") end print()
for a, b, c, d in iter, 2, 0 do io.write(a, " ", b, " ", tostring(c), " ", tostring(d), "; ") end print()
for w in ("one two three"):gmatch("%a+") do io.write(w, ".") end print()
for a in function() return nil end do print "never" end
for a in function() end do print "never" end
local f = false; for a in function() f = not f; if f then return false end end do print("false is a value", a) end
for k, v in next, { x = 1 } do print(k, v) end
print(pcall(load "for x in nil do end")); print(pcall(load "for x in 5, 6 do end")); print(pcall(load "local t = {} for x in t do end"))
-- nested breaks and continue
for i = 1, 3 do for j = 1, 3 do if j == 2 then goto continue end; if i == 2 then break end; io.write(i, j, " ") ::continue:: end end print()
local n = 0; while true do n = n + 1; if n > 5 then break end; if n % 2 == 0 then goto next end; io.write(n, " ") ::next:: end print(n)
local r = 0; repeat local stop = r >= 3; r = r + 1 until stop; print(r)
repeat local x = true until x
while false do print "never" end; repeat until true; for i = 1, 0 do print "never" end
-- loop variables are local
local i = "outer"; for i = 1, 2 do end; print(i)
do local s = 0; for i = 10, 1, -3 do s = s * 100 + i end print(s) end
-- changing the limit variable inside has no effect
local stop = 3; for i = 1, stop do stop = 100; io.write(i, " ") end print()
-- a big loop
local sum = 0; for i = 1, 100000 do sum = sum + (i & 3) end print(sum)
local fs = 0.0; for x = 0, 1, 1/128 do fs = fs + x end print(fs)
local cnt = 0; for i = -5, 5 do for j = i, 5 do cnt = cnt + 1 end end print(cnt)
-- functions as bounds with multiple results are adjusted
local function two() return 2, 99 end; for i = 1, two() do io.write(i, " ") end for i = two(), 3 do io.write(i, " ") end for i = 1, 6, two() do io.write(i, " ") end print()
