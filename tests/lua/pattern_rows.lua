-- Patterns that begin with a repetition: a search does not try again within a row of bytes in which it has failed.
local function show(...) print(...) end

-- The row fails, a later one matches.
show(("aaa bbb=1 ccc"):find("(%a+)=(%d)"))
show(("aaa=x bbb=1"):match("(%a+)=(%d)"))
show(("x1y22z333"):find("%d+$"), ("x1y22z333 "):find("%d+$"))
show(("bench/a.lua:5: bad 3"):match("[^:]*$"), ("a:b:"):match("[^:]*$"), ("abc"):match("[^:]*$"))
show(("aab"):find("a*b"), ("aaab"):find("a-b"), ("aacb"):find("a*b"), ("aacb"):find("a-b"))
show(("aaa"):find("a*ab"), ("aaab"):find("a+ab"), ("aaxaab"):find("(a+)(a)b"))
-- One of them may be given back, and the rest looks at what is before it.
show(("THE (quick) fox"):find("%f[%a]%a+%f[%A]"), ("aaab"):find("a+%f[b]b"), ("aaab"):find("a*%f[%z]"))
show(("((a)"):find("%(*%b()"), ("aa(b)"):find("a*%b()"))
-- References back depend on where a row was entered.
show(("abab"):find("(%a+)%1"), ("xaabaab"):find("(%a+)%1"), ("aXa"):find("(a*)X%1"), ("aabXab"):find("(%a+)X%1"))
-- Positions, empty matches, and matches that are refused because the last one ended there.
show(("aaa,,bb"):gsub("a*", "<%0>"))
show(("aaa,,bb"):gsub("()a-()", "<%1%2>"))
show(("aab"):gsub("a-b?", "<%0>"))
show(("a b  c"):gsub("%s*", "."), ("a b  c"):gsub("()%s+()", "%1-%2"))
for at, word, to in ("one  two,three"):gmatch("()(%a+)()") do io.write(at, word, to, ";") end print()
for a, b in ("k=v, x, y=z"):gmatch("(%w*)=(%w*)") do io.write(a, ">", b, ";") end print()
for a in ("aXbbXc"):gmatch(".-X") do io.write(a, ";") end print()
-- Rows and single bytes, with and without a capture, at both ends.
show(("  a b "):gsub("%s+", "_"), ("  a b "):gsub("(%s+)", "[%1]"), ("<a & b>"):gsub("[<>&]", { ["<"] = "&lt;", ["&"] = "&amp;" }))
show(("<a & b>"):gsub("([<>])", "%1%1"), ("aXbYc"):gsub("%u", string.lower), (""):gsub("%s+", "x"), ("abc"):gsub("%s", "x"))
show(("abc"):find("c", 3, false), ("abc"):find("[bc]", 3), ("abc"):find("[cx]", 4), ("abc"):find("%w+", 4), ("abc"):find(".+", 2))
show(("\0a\0\0b"):gsub("%z+", "0"), ("\255\254a"):gsub("[\254\255]", "h"), ("\255\254a"):find("[^\254\255]+"))
show(pcall(string.find, "aaa", "(a+"), pcall(string.find, "aaa", "a+["), pcall(string.find, "bbb", "a+["), pcall(string.gsub, "aaa", "a+", "%1%2"))
show(("aaaa"):rep(50):find("a*a*a*b"), ("a"):rep(30):find("a-a-b"))
