-- Messages of the parser, with the token they point at.
local function try(src)
  local f, msg = load(src, "=src")
  print(f and "ok" or msg)
end
for _, src in ipairs {
  "x", "x =", "x = =", "= 1", "x y", "f(", "f(1,", "f(1 2)", "a.1", "a.'b'", "a:b", "a:b = 1", "a:", "a.",
  "local", "local 1", "local x =", "local function", "local function 1", "local function f", "local function f(",
  "local function f(a", "local function f(a,", "local function f(...,a) end", "local function f(1) end",
  "function", "function f", "function f.", "function f:a.b() end", "function f:a:b() end", "function 1() end",
  "if", "if x", "if x then", "if x then else", "if x then elseif", "if x then elseif y", "if x then else elseif y then end",
  "while", "while x", "while x do", "repeat", "repeat until", "for", "for x", "for x =", "for x = 1", "for x = 1 do end",
  "for x = 1, 2", "for x = 1, 2, 3, 4 do end", "for x, y = 1, 2 do end", "for x in", "for x in y", "for x in y do",
  "for 1 = 1, 2 do end", "for a.b = 1, 2 do end", "for in x do end",
  "do", "end", "do end end", "until x", "else", "elseif", "then",
  "return return", "return 1 2", "return 1; 2", "return 1,", "return; x = 1", "do return 1 x = 2 end",
  "break", "do break end", "function f() break end", "while true do local function g() break end end",
  "goto", "goto 1", "goto nowhere", "do goto l1 end do ::l1:: end", "::l1:: ::l1::", "::l1:: do ::l1:: end", "::", "::a", "::a:",
  "goto l1; local a; ::l1:: print(a)", "repeat goto cont; local x; ::cont:: until x", "do goto l1; local a ::l1:: end",
  "{}", "x = {", "x = {1", "x = {1,", "x = {1 2}", "x = {a =}", "x = {[1]}", "x = {[1] 2}", "x = {[1 = 2}", "x = {,}", "x = {;}", "x = {1;;2}",
  "x = (1", "x = ()", "x = 1 +", "x = 1 + + 2", "x = * 2", "x = not", "x = #", "x = -", "x = a b", "x = a..", "x = a.b.",
  "(a) = 1", "(a).b = 1", "a, b", "a, b += 1", "a, 1 = 2", "f() = 1", "a, f() = 1, 2", "1 = a", "'x' = 1", "nil = 1", "... = 1",
  "f().x = 1", "f()", "(f)()", "('x'):len()", "'x':len()", "{}.x()", "x = 'a''b'", "f'a''b'", "f{}{}", "f\n(1)",
  "x = function", "x = function(", "x = function() ", "x = function() end end", "x = function f() end",
  "local x <const> = 1; x = 2", "local x <close>, y <close> = 1, 2", "local x <const>", "local x <const> = 1; function f() x = 2 end",
  "local x <close> = nil; x = 1", "local x <const> = 1; local function f() return function() x = 3 end end", "local x <", "local x <const", "local x <1> = 2",
  "function f() return ... end", "x = function() return ... end", "x = ...", "local a <const>, b = 1, 2; b = 3; a = 4",
  "x = 5 ; ; y", "not x", "-x", "x and y", "'str'", "[[str]]", "...", "#x", "nil", "true()", "(true)", "a.b", "a[1]", "a[", "a[1", "a[]", "a[1,2] = 3",
  "x = a.end", "x = end", "for = 1", "local and = 1", "local function end() end", "goto end",
  "x = 1 -- comment\n\n\n= 2", "if x then\n\n\nelse\n\n", "for i = 1, 2 do\n\nx = 1", "f(\n\n", "x = {\n1,\n2\n", "function f()\n\n\nif x then end", "repeat\n\nx = 1\n",
  "x = 'a' .. \n\n'b' c", "x = [[\n\n]] y", "return 'x' 'y'", "x = <", "x = a < < b", "x = a <> b", "x = a != b", "x = a === b", "x += 1", "x++", "i = i ++ 1",
} do
  io.write(string.format("%q", src):gsub("\\\n", "\\n"), " ")
  try(src)
end
