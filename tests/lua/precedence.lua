-- Precedence and associativity, folded and not folded.
local n1, n2, n3, n4 = 1, 2, 3, 4
local s = "s"
print(2 + 3 * 4, (2 + 3) * 4, 2 * 3 + 4, 2 ^ 3 ^ 2, (2 ^ 3) ^ 2, -2 ^ 2, (-2) ^ 2, 2 ^ -2, -2 ^ -2)
print(n2 + n3 * n4, (n2 + n3) * n4, n2 ^ n3 ^ n2, -n2 ^ n2, n2 ^ -n2)
print(10 - 3 - 2, 10 / 5 / 2, 100 // 7 // 2, 17 % 10 % 4, 10 - (3 - 2), 2 * 3 % 4, 7 // 2 * 2)
print("a" .. "b" .. "c" .. 1 + 2 .. "d", s .. n1 + n2 .. s, "x" .. 2 ^ 2, 2 .. 3 == "23", "a" .. "b" == "ab")
print(1 + 1 << 2, 1 << 1 + 2, 1 | 2 & 3, 1 ~ 3 & 2, 5 & 3 | 8, ~1 + 1, ~1 & 3, 1 << 2 << 3, 256 >> 2 >> 1)
print(1 | 2 == 3, 1 < 2 == true, not 1 == 2, not (1 == 2), -1 < 1, 1 + 1 == 2 and 2 * 2 == 4)
print(1 or 2 and 3, nil or 2 and 3, nil and 1 or 2, false or nil, nil and nil, 1 and nil or 3, (1 or 2) and 3)
print(not nil, not not nil, not 0, not "", #"abc" + 1, -#"abc", (#"abc") ^ 2, not #"x" == 0)
print(2 * 3 .. "", -"2" + 0, - - 3, not - 3, -(-3), - -n1)
print(1 < 2, 1 <= 1, 2 > 1, 1 >= 2, 1 ~= 2, 1 == 2, "a" < "b", not (1 < 2))
print(5 // 2 * 2 + 5 % 2, (5 // 2) * 2 + (5 % 2), 5 + -5, 5 - -5, 5 * -1)
local function tr(x) io.write("[", tostring(x), "]") return x end
print(tr(1) + tr(2) * tr(3) ^ tr(2) .. tr("x"))
print(tr(false) and tr(1) or tr(2))
print(tr(nil) or tr(false) or tr(3))
print(tr(1) and tr(2) and tr(nil) and tr(4))
print(tr(1) < tr(2), tr(1) == tr(1), not tr(false))
print((tr(1) or tr(2)) and (tr(nil) or tr(5)))
local t = { tr(1), x = tr("a"), [tr("k")] = tr("v"), tr(2) }
print(t[1], t[2], t.x, t.k)
-- boolean values of comparisons stored, passed, returned
local function cmp(a, b) return a < b, a <= b, a == b, a ~= b, not (a < b), a < b and a or b, a > b and "gt" end
print(cmp(1, 2)); print(cmp(2, 2)); print(cmp(3, 2.5))
local x = n1 < n2; local y = not x; local z = x and y; local w = x or y
print(x, y, z, w, x == not y, (x and "t" or "f"))
local function andor(a, b, c) return a and b or c, a or b and c, (a or b) and c, not a and b, not (a and b) or c end
for _, a in ipairs { true, false } do for _, b in ipairs { true, false } do for _, c in ipairs { true, false } do print(a, b, c, "->", andor(a, b, c)) end end end
-- constant folding must not change what happens
print(1 // 0.0, -1 // 0.0, 0/0 ~= 0/0, 1 << 64, 3 & 5.0, 0.0 == -0.0, 1/(0.0) , 1/(-0.0), 1/-0.0, -0.0)
print(pcall(load "return 1 // 0"), pcall(load "return 'a' + 1"), pcall(load "return 1 & 1.5"), pcall(load"return {} .. 'x'"))
print(2^53 == 2^53 + 1, math.maxinteger + 1 == math.mininteger, 9007199254740993 == 9007199254740993.0)
print(("x"):rep(3) .. "y", #"abc" .. "", -2 .. "", (2) .. (3))
print(1 .. 2 .. 3, 1 + 2 .. 3 + 4, "a" .. 1 == "a1", 2 ^ 3 .. "")
local r = {}
for i = 1, 5 do r[#r + 1] = i % 2 == 0 and "even" or i > 3 and "big odd" or "odd" end
print(table.concat(r, ","))
while not (n1 >= 3) do n1 = n1 + 1 end
repeat local done = n1 == 0; n1 = n1 - 1 until done
print(n1)
if not (n1 == -1 and n2 == 2) then print "no" elseif n3 ~= 3 or n4 == 4 then print "yes" end
