-- string.* without patterns.
print(("hello"):len(), #"", ("x"):rep(0), ("x"):rep(-1), ("ab"):rep(3), ("ab"):rep(3, ","), ("ab"):rep(1, ","), ("").rep("", 10), ("x"):rep(3, ""))
local s = "hello world"
print(s:sub(1, 5), s:sub(7), s:sub(-5), s:sub(-5, -3), s:sub(2, -2), s:sub(0), s:sub(100), s:sub(-100, 3), s:sub(3, 2), s:sub(5, 5), s:sub(math.mininteger, math.maxinteger), s:sub(1, 0), s:sub(-1, -1), s:sub(12), s:sub(11))
print(s:upper(), ("MiXeD 123"):lower(), s:reverse(), (""):reverse(), ("a"):reverse(), ("\0a\0"):reverse():byte(1, -1))
print(s:byte(), s:byte(1), s:byte(-1), s:byte(100), s:byte(1, 3), s:byte(-3, -1), s:byte(0), (""):byte(), s:byte(3, 1), s:byte(0, 2)); print(select("#", s:byte(100)), select("#", s:byte(1, -1)))
print(string.char(), string.char(72, 105), #string.char(0, 255), string.char(104, 101, 108, 108, 111)); print(("\0\1\2"):len(), "a\0b" == "a\0b", #"a\0b", "a\0b" < "a\0c", ("a\0b"):byte(2), ("x\0y"):upper() == "X\0Y")
print(s:find("world", 1, true), s:find("o"), s:find("o", 6), s:find("z"), s:find(""), s:find("", 5), s:find("", 12), s:find("", 13), s:find("l+", 1, true), s:find("hello", -5, true), s:find("d", -1, true), ("a.b"):find(".", 1, true), ("a+b"):find("+", 1, true), s:find("h", -100, true)); print((""):find(""), (""):find("x"), ("").find("", "", 10), ("abc"):find("b", nil, true), ("aXbXc"):find("X", 3, true), ("\0\0x"):find("x", 1, true), ("\0a\0b"):find("\0b", 1, true))
-- comparison and equality of strings built in different ways
local a, b = "abc", "a" .. "bc"; print(a == b, ("x"):rep(50) == ("x"):rep(25) .. ("x"):rep(25), ("x"):rep(50) == ("x"):rep(51), a < b, a <= b, "a" < "b", "a" > "B", "" < "a", "abc" < "abd", "abc" < "ab", "ab" < "abc", "\xff" > "a", "a\0" > "a"); local k = {}; k[("k"):rep(3)] = 1; k["kkk"] = 2; print(k.kkk)
-- concatenation
print("a" .. "b" .. "c", 1 .. 2, "x" .. 1 .. 2.5, ("a" .. "b"):upper(), #("x" .. ("y"):rep(1000) .. "z")); local r = ""; for i = 1, 100 do r = r .. i .. "," end print(#r, r:sub(1, 20), r:sub(-10)); local parts = {}; for i = 1, 100 do parts[i] = i end print(#table.concat(parts, ","), table.concat(parts, ",", 95)); local long = ""; for i = 1, 2000 do long = "<" .. long .. ">" end print(#long, long:sub(1999, 2002))
-- tostring and numbers
print(tostring(12), tostring(-0.0), tostring(1e300), tostring("x"), 12 .. "", 1.0 .. "", -1.5 .. "", 2^63 .. "", math.mininteger .. "", 0x10 .. "", 1e15 .. "", 1e16 .. "", 0.1 .. "", 1/3 .. "")
-- memory limits of rep
print(pcall(string.rep, "x", 1 << 62)); print(pcall(string.rep, "x", math.maxinteger)); print(pcall(string.rep, "abc", math.maxinteger // 2, ",")); print(pcall(string.rep, "x", -math.maxinteger)); print(pcall(string.rep, "", 100, "")); print(#("x"):rep(1e6, ","), #("xyz"):rep(1e5))
-- methods on literals and numbers through the string metatable
print(("%d"):format(5), ("x"):byte(), #("abc"):upper(), ("a,b"):find(",", 1, true), ("x"):len()); print(pcall(function() return (5):len() end)); print(("5"):rep(2) + 1); string.double = function(x) return x .. x end; print(("ab"):double()); string.double = nil
-- bytes above 127
print(("\xe9"):upper() == "\xe9", ("\xc3\xa9"):len(), ("é"):byte(1, -1)); print(("ÀÉ"):lower() == "ÀÉ", ("\x80\xff"):reverse() == "\xff\x80")
-- long keys, interning and substrings
local set = {}; local text = ("the quick brown fox jumps over the lazy dog "):rep(20); for i = 1, #text - 5 do set[text:sub(i, i + 5)] = true end; local c = 0; for _ in pairs(set) do c = c + 1 end print(c)
local bytes = {}; for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end local all = table.concat(bytes); print(#all, all:byte(1), all:byte(256), all:reverse():byte(1), all:upper():sub(98, 99), all:lower():sub(66, 67)); for i = 1, 256 do assert(all:byte(i) == i - 1 and all:sub(i, i) == string.char(i - 1)) end
print(#tostring({}) > 7, tostring({}):find("^table: 0x%x+$") ~= nil or tostring({}), tostring(print):find("^function: ") ~= nil, tostring(coroutine.create(print)):find("^thread: ") ~= nil, tostring(io.stdout):find("^file %(0x") ~= nil)
