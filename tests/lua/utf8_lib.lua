-- utf8: decoding strict and lax, positions, errors.
local function e(...) print(select(2, pcall(...))) end
local s = "a\u{e9}\u{4e16}\u{1f600}z"
print(#s, utf8.len(s), utf8.codepoint(s, 1, -1)) print(utf8.char(97, 233, 0x4e16, 0x1f600), utf8.char(), #utf8.char(0x7fffffff), utf8.charpattern == "[\0-\x7F\xC2-\xFD][\x80-\xBF]*")
for p, c in utf8.codes(s) do io.write(p, ":", c, " ") end print()
for i = -6, 6 do io.write(tostring(utf8.offset(s, i)), " ") end print()
for i = 1, #s + 1 do io.write(utf8.offset(s, 0, i), " ") end print()
print(utf8.offset(s, 2, 4), utf8.offset(s, -1, 4), utf8.offset("", 1), utf8.offset("", 0), utf8.offset("abc", 5))
print(utf8.len("\xff"), utf8.len("ab\x80"), utf8.len("\xed\xa0\x80"), utf8.len("\xed\xa0\x80", 1, -1, true), utf8.len("\xf4\x90\x80\x80"), utf8.len("\u{7fffffff}", 1, -1, true), utf8.len("\xc0\x80", 1, -1, true))
print(utf8.len(s, 2), utf8.len(s, 4, 6), utf8.len(s, -1), utf8.len(s, 3), utf8.len("", 1), utf8.len("abc", 4), utf8.len("abc", 3, 1))
print(utf8.codepoint("\u{d7ff}\u{e000}", 1, -1)) print(utf8.codepoint("\u{d800}", 1, 1, true)) print(utf8.codepoint("abc", 3, 2))
e(utf8.len, "abc", 5) e(utf8.len, "abc", 1, 4) e(utf8.len, "abc", -4) e(utf8.codepoint, "abc", 4) e(utf8.codepoint, "abc", 1, 4) e(utf8.codepoint, "\xff") e(utf8.char, -1) e(utf8.char, 0x80000000)
e(utf8.offset, "abc", 1, 5) e(utf8.offset, s, 1, 3) e(function() for _ in utf8.codes("ab\xff") do end end) e(function() for _ in utf8.codes("\u{d800}") do end end)
for p, c in utf8.codes("\u{d800}\u{7fffffff}", true) do io.write(p, ":", c, " ") end print()
for w in string.gmatch(s, utf8.charpattern) do io.write("[", w, "]") end print()
