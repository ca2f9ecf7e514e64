-- Tokens: numerals, strings with every escape, long brackets, comments, names.
print(0, 7, 007, 1234567890)
print(0x0, 0xff, 0XA0b, 0xffffffffffffffff, 0x7fffffffffffffff, 0x1ffffffffffffffff)
print(1., .5, 3.25, 1e2, 1E+2, 1e-2, 5.e1, .5e1)
print(0x.8, 0x1p4, 0x1P-2, 0xA.8p0, 0x.1p+4, 0xep1)
print(9223372036854775807, 9223372036854775808, 1e308 * 10, 3e400)
print('a\tb', "tab\ttab", 'q\'q', "d\"d", 'back\\slash')
print("\65\066\0067", "\x41\x7a", "\u{48}\u{7FF}\u{FFFF}\u{10FFFF}" == "H\xDF\xBF\xEF\xBF\xBF\xF4\x8F\xBF\xBF")
print(#"\u{7FFFFFFF}", #"\u{0}", #"\0\0a", ("\0a\0"):byte(1, -1))
print("one\z
       two\z   three", "line\
break", #"\z")
print("\a\b\f\v\r" == "\7\8\12\11\13")
print([[long]], [==[with ]] and ]=] inside]==], #[[
x]], #[[

x]])
print([[a\nb]], #[=[
]=])
--[[ a block
comment ]] print("after block comment")
--[==[ another ]] ]=]
]==] print("after level two")
--[ not a block comment
print("single") ---[[ still single
---[==[
print("visible")
--]==]
local _, a1, _b, A, a = 1, 2, 3, 4, 5
print(_, a1, _b, A, a)
local t = {["end"] = 1, end_ = 2, ["function"] = 3}
print(t["end"], t.end_, t["function"])
print(1 --[[x]] + --[=[y]=] 2)
print(#"a\
b", "x" .. 1 .. 2, 1 .. "")
print(0xA, 0Xa, 1e1, 0x1e1, 0x1e+1)
do local x = 1;;; local y = 2; print(x + y) end
print(("x"):rep(3), #"é", "\xe9" == "\233")
print(3 .. '', 3.0 .. '', -0.0 .. '')
print(100000000000000, 1e14, 1e15, 1e16, 123456789012345678)
goto continue
print("skipped")
::continue:: ; ::again::
print(- - 2, not not nil, - -2 ^ 2, 2^-1)
print(a1--[[comment directly after name]]+1)
print("\u{20AC}", "\u{1F600}")
print(1//1, 1~=1, 1<=1, 1>=1, 1==1, 1<<1, 8>>1, 5~3, 5&3, 5|3)
print(... == nil, select('#', ...))
