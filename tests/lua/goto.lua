-- goto: forward, backward, out of nested blocks, labels in scopes, continue, state machines.
do goto a; ::b:: print "b"; goto c; ::a:: print "a"; goto b; ::c:: print "c" end
do local i = 1; ::loop:: if i <= 3 then io.write(i, " "); i = i + 1; goto loop end print() end
for i = 1, 3 do for j = 1, 3 do for k = 1, 3 do if i * j * k == 4 then print(i, j, k); goto out end end end end ::out::
-- same label in different blocks and functions
do ::x:: end do ::x:: end
local function f() do goto x; print "skipped" ::x:: end goto x; do print "skipped" end ::x:: return "f done" end print(f())
-- continue
for i = 1, 5 do if i % 2 == 0 then goto continue end io.write(i, " ") ::continue:: end print()
local i = 0; while i < 5 do i = i + 1; if i == 3 then goto continue end io.write(i, " ") ::continue:: end print()
i = 0; repeat i = i + 1; if i == 2 then goto continue end io.write(i, " ") ::continue:: until i >= 4 print()
-- label at end of block: locals declared between are allowed
do goto e; local x; ::e:: end
do if true then goto e end; local a = 1; print "not here"; ::e:: ; end
-- fresh locals each round
do local fns = {}; local n = 0
  ::again:: local v = n; fns[#fns + 1] = function() v = v + 1; return v end; n = n + 1
  if n < 3 then goto again end
  print(fns[1](), fns[1](), fns[2](), fns[3]())
end
-- a local is nil again when its declaration runs again
do local n = 0 ::again:: local x; io.write(tostring(x), " "); x = n; n = n + 1; if n < 3 then goto again end print() end
-- a state machine
local function match(s)
  local p = 1; local function ch() local c = s:sub(p, p); p = p + 1; return c end; local c
  ::start:: c = ch(); if c == "a" then goto seen_a elseif c == "" then goto accept else goto reject end
  ::seen_a:: c = ch(); if c == "b" then goto start elseif c == "a" then goto seen_a else goto reject end
  ::accept:: do return "accept" end
  ::reject:: do return "reject at " .. p - 1 end
end
print(match("abab"), match("aaab"), match("abc"), match("b"), match(""))
-- jumps with closing of upvalues in the right order
do local log = {}; local function c(n) return setmetatable({}, { __close = function() log[#log + 1] = n end }) end
  for i = 1, 3 do local a <close> = c("a" .. i); do local b <close> = c("b" .. i); if i == 2 then goto cont end end log[#log + 1] = "body" .. i; ::cont:: end
  print(table.concat(log, " "))
  log = {}
  do local x <close> = c "x"; do local y <close> = c "y"; goto leave end end ::leave:: print(table.concat(log, " "))
  log = {}; local n = 0
  do ::back:: local z <close> = c("z" .. n); n = n + 1; if n < 3 then goto back end end print(table.concat(log, " "))
end
-- while with goto to before the loop
do local tries = 0 ::retry:: tries = tries + 1; for i = 1, 10 do if i == 5 and tries < 3 then goto retry end end print("tries", tries) end
for _, src in ipairs {
  "goto l", "do ::l:: end goto l", "goto l; do ::l:: end", "::l:: ::l::", "do ::l:: end ::l:: ; do ::l:: end", "goto l; local a; ::l:: a = 1", "do goto l; local a; ::l:: ; end", "goto l; local a; ::l:: ;;; return",
  "repeat if x then goto cont end; local y; ::cont:: until y", "function f() goto l end ::l::", "::l:: function f() goto l end", "while x do goto e end ::e::", "if x then goto a else goto b end ::a:: ::b::", "goto f; local function f() end ::f:: print(f)",
  "for i = 1, 2 do ::l:: end goto l", "break", "local function f() break end", "goto break", "::break::", "for i = 1, 2 do goto i end", "\n\ngoto\n\nfoo", "do goto x; local x <close> = nil; ::x:: print(1) end", "::a:: goto a; ::a::",
} do print(load(src, "=g") and "ok" or (select(2, load(src, "=g")))) end
