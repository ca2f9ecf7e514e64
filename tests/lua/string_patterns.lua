-- Patterns: matches, captures, replacement, errors, and what a callback may do.
local function e(...) print(select(2, pcall(...))) end
local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = type(t[i]) == "string" and string.format("%q", t[i]) or tostring(t[i]) end
  print(table.concat(t, " "))
end
show(string.find("hello world", "o w")) show(string.find("a.b", ".", 1, true)) show(string.find("abc", "", 10)) show(string.find("abc", "", 4))
show(string.find("hello", "l", -2)) show(string.find("abc", "b", -100)) show(string.match("key = value", "^(%w+)%s*=%s*(%w+)$"))
show(string.match("2024-01-15", "(%d+)-(%d+)-(%d+)")) show(string.match("abc", "()b()")) show(string.find("abc", "(b)(c)"))
show(string.match("  x  ", "^%s*(.-)%s*$")) show(string.match("f(a(b)c)d", "%b()")) show(string.gsub("THE (quick) fox", "%f[%a]%a+", string.lower))
show(string.gsub("hello", "", "-")) show(string.gsub("abc", "%w", "%0%0")) show(string.gsub("abc", "(a)(b)", "%2%1")) show(string.gsub("abc", "b", "%%"))
show(string.gsub("abc abc", "b", "x", 1)) show(string.gsub("abc", "b", "x", 0)) show(string.gsub("abc", "^a", "x")) show(string.gsub("aaa", "^a", "x"))
show(string.gsub("x y z", "%a", { x = "1", y = false, z = 2.5 })) show(string.gsub("x y", "%a", function(c) if c == "x" then return "!" end end))
show(string.gsub("a1b2", "()%d", "%1")) show(string.gsub("abc", "b*", "-")) show(("x"):rep(3, ","))
local id = setmetatable({}, { __index = function(_, k) return k .. k end })
show(string.gsub("ab", ".", id))
for k, v in string.gmatch("a=1, b=2", "(%w+)=(%w+)") do io.write(k, v, ";") end print()
for w in string.gmatch("abc", "") do io.write("[", w, "]") end print()
for w in string.gmatch("one two  three", "%a*") do io.write("[", w, "]") end print()
for p in string.gmatch("abcabc", "()b", 3) do io.write(p, " ") end print()
for w in string.gmatch("^a^a", "^a") do io.write("[", w, "]") end print()
e(string.find, "a", "%") e(string.find, "a", "[a") e(string.find, "a", "[]") e(string.find, "a", "(a") e(string.find, "a", ".)") e(string.find, "a", "%1")
e(string.find, "a", "%f") e(string.find, "a", "%b") e(string.find, "a", "(a)%2") e(string.find, "a", string.rep("()", 33)) e(string.find, "x", "y[")
e(string.gsub, "a", "(a", "%1") e(string.gsub, "a", "a", "%") e(string.gsub, "a", "a", "%x") e(string.gsub, "a", "a", "%2") e(string.gsub, "a", "a", true)
e(string.gsub, "a", "a", function() return {} end) e(string.gsub, "a", "a", error) e(string.match, ("a"):rep(300), ("a?"):rep(201))
-- a callback that uses the same pattern, and one that leaves
show(("ab"):gsub("%a", function(c) return (c:gsub("%a", function(d) return d:upper() .. d end)) end))
print(pcall(string.gsub, "abc", "%a", function(c) if c == "b" then error("out", 0) end end))
-- repetition: greedy, lazy, possible and impossible to give back
show(string.match("aaab", "a*ab")) show(string.match("aaab", "a*b")) show(string.match("aaab", "a-b")) show(string.match("aaab", "^a?a?a?a?b"))
show(string.match("<<a>>", "<(.-)>")) show(string.match("<<a>>", "<(.*)>")) show(string.match("a,b,c", "(.*),(.*)")) show(string.match("x = [[y]]", "%[(=*)%[(.-)%]%1%]"))
show(string.match(("a"):rep(100000) .. "b", "^(a*)b$") == ("a"):rep(100000)) show(#string.match(("ab"):rep(1000), ".-$"))
show(string.match("\0a\0b", "%z(.)%z")) show(string.match("h\xe9", "[\x80-\xff]")) show(string.match("]-^%", "[]%-^%%]+"))
