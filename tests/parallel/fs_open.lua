-- Open files of perilune.fs: pieces, lines, positions, locks, cancelling, several fibers; what they send to connections; permissions of new files; parts of files.
-- stress: no
local fs = require "perilune.fs"
local net = require "perilune.net"
local pl = require "perilune"

print "-- without fibers"
local f = assert(fs.open("a.txt", "w+"))
print(f:write("one\r\n", 2, "\nthree"), f:size(), f:seek())
print(f:seek "set", f:read_line(), f:read_line(), f:seek(), f:read_line(), f:read_line())
print(f:seek("set", 5), f:read(1), f:seek(), f:read(100), f:read(1), f:read(1))
print(f:seek("end", -5), f:read_all(), f:read_all(), f:read())
print(f:read_at(0, 3), f:read_at(100, 1), f:write_at(0, "ONE"), f:seek "set", f:read(3))
-- a write goes where reading has come to, and reading goes on behind it
print(f:seek("set", 1), f:read(1), f:write "E", f:seek(), f:read_line())
print(f:truncate(4), f:size(), f:seek("set", 2), f:truncate(), f:size(), f:sync())
print(f:close(), f:close(), f:read())
print(select(3, f:write "x"), select(3, f:size()), select(3, f:seek "set"), select(3, f:lock()))

print "-- modes"
local f <close> = fs.open("a.txt", "a+")
f:write "!" f:seek "set" f:write "?"
print(f:seek "set", f:read_all())
print(select(3, fs.open("a.txt", "wx")), select(3, fs.open "nothing"), select(3, fs.open("nowhere/a", "w")))
print(select(3, fs.open("a.txt"):write "x"), select(3, fs.open("b.txt", "w"):read()))
print(pcall(fs.open, "a.txt", "rw"))
print(pcall(f.read, f, 0))
print(pcall(f.seek, f, "middle"))
print(select(3, f:seek("set", -1)))

print "-- lines"
local f <close> = fs.open("lines.txt", "w+")
for n = 1, 5000 do f:write(n, (" x"):rep(n % 50), "\n") end
f:write "last"
f:seek "set"
local n = 0
for line in f:lines() do
  n = n + 1
  if n <= 5000 and line ~= n .. (" x"):rep(n % 50) then print("wrong", n, line) end
end
print(n)
f:seek "set"
print(f:read_line(), f:read_line(3), f:read_line())
f:seek("set", 10)
print(pcall(function() for _ in f:lines(2) do end end))
-- it grows: the end is no end for ever
f:seek "end"
print(f:read_line(), f:write "more\n", f:seek("end", -5), f:read_line(), f:read_line())

print "-- fibers that read one file: each byte goes to one of them"
local f <close> = fs.open "lines.txt"
local total, seen = 0, {}
pl.scope(function(s)
  for _ = 1, 10 do
    s:spawn(function()
      while true do
        local line = f:read_line()
        if not line then break end
        total = total + #line + 1
        seen[line] = (seen[line] or 0) + 1
        pl.yield()
      end
    end)
  end
end)
local twice = 0
for _, count in pairs(seen) do if count > 1 then twice = twice + 1 end end
print(total == f:size(), twice)

print "-- fibers that write one file: each has a place of its own"
local f <close> = fs.open("many.txt", "w+")
pl.scope(function(s)
  for n = 1, 20 do s:spawn(function() for _ = 1, 20 do f:write(string.char(n + 64):rep(99), "\n") end end) end
end)
f:seek "set"
local whole = 0
for line in f:lines() do if #line == 99 and line == line:sub(1, 1):rep(99) then whole = whole + 1 end end
print(whole)

print "-- a read that is cancelled takes nothing"
os.execute "mkfifo pipe"
local f
pl.scope(function(s)
  s:spawn(function() f = fs.open("pipe", "r+") end)
end)
print(pl.timeout(0.02, f.read, f, 5))
f:write "hello"
pl.scope(function(s) s:spawn(function() print(f:read(5)) end) end)
print(select(3, f:seek "end"))
-- bytes that come to the read of somebody who is gone are those of who waits now, in a fiber or without
local got = 0
for n = 1, 20 do
  pl.timeout(0.001, f.read, f, 5)
  pl.scope(function(s)
    s:spawn(function() for _ = 1, 2 do if f:read(5) == "hello" then got = got + 1 end end end)
    s:spawn(function() if n % 2 == 0 then pl.yield() end f:write "hellohello" end)
  end)
end
print(got)
pl.timeout(0.001, f.read, f, 5)
os.execute "(sleep 0.02; printf hello > pipe) &"
print(f:read(5))
f:close()

print "-- locks"
local a <close> = fs.open("lock", "w")
local b <close> = fs.open("lock", "w")
print(a:lock(), select(3, b:lock { timeout = 0 }), select(3, b:lock { shared = true, timeout = 0.03 }))
pl.scope(function(s)
  s:spawn(function() print("b", b:lock()) end)
  s:spawn(function() pl.sleep(0.05) print("a", a:unlock()) end)
end)
print(pl.timeout(0.03, a.lock, a))
b:close()
print(a:lock { timeout = 5 })
print(pcall(a.lock, a, { wait = true }))

print "-- to a connection"
local function pair()
  local l <close> = assert(net.listen("127.0.0.1:0"))
  local c = assert(net.connect(l:endpoint()))
  return c, assert(l:accept())
end
local text = {}
for n = 1, 300000 do text[n] = n .. "\n" end
text = table.concat(text)
fs.write("big.txt", text)
local f <close> = fs.open "big.txt"
do
  local c, s = pair()
  local got
  pl.scope(function(scope)
    scope:spawn(function() got = s:read_all() end)
    c:write "before "
    print(c:send_file(f) == #text, c:send_file(f, 3, 2), c:send_file(f, #text, 10), c:send_file(f, 0, 0))
    c:write " behind"
    c:close()
  end)
  print(got == "before " .. text .. text:sub(4, 5) .. " behind", f:seek())
end
do -- a peer that does not read, and one that is gone
  local c, s = pair()
  c:set { write_timeout = 0.05 }
  local ok, message, code
  repeat ok, message, code = c:send_file(f) until not ok
  print(code)
  s:abort()
  repeat ok, message, code = c:send_file(f) until not ok
  print(code)
  c:close()
  print(select(3, c:send_file(f)))
  local c, s = pair()
  f:close()
  print(select(3, c:send_file(f)))
  print(pcall(c.send_file, c, "big.txt"))
end

print "-- large pieces, to peers that take them at once and to one that takes its time, with text before and behind"
do
  local numbers = {}
  for n = 1, (3 << 20) // 8 do numbers[n] = ("%07x\n"):format(n) end
  local large = table.concat(numbers)
  fs.write("large", large)
  local file <close> = fs.open "large"
  for _, piece in ipairs { 65536, 700000, #large } do
    local c, s = pair()
    local right, wrong = 0, 0
    pl.scope(function(scope)
      scope:spawn(function()
        for round = 1, 6 do
          if s:read_exact(8) ~= ("head %d\n "):format(round) then wrong = wrong + 1 end
          local got = {}
          local left = #large
          while left > 0 do
            got[#got + 1] = s:read(math.min(left, 100000))
            left = left - #got[#got]
            if round % 3 == 0 then pl.sleep(0.0005) end
          end
          if table.concat(got) == large then right = right + 1 else wrong = wrong + 1 end
        end
        print(piece, right, wrong, s:read_all())
      end)
      for round = 1, 6 do
        c:write(("head %d\n "):format(round))
        local at = 0
        while at < #large do at = at + c:send_file(file, at, math.min(piece, #large - at)) end
      end
      c:close()
    end)
  end
end

print "-- parts of files"
print(fs.read("big.txt", { offset = 2, length = 5 }) == text:sub(3, 7), fs.read("big.txt", { offset = #text }), fs.read("big.txt", { length = 3 }) == "1\n2")
print(fs.read("big.txt", { offset = #text - 2 }) == text:sub(-2), select(3, fs.read("big.txt", { offset = 1, limit = 10 })))
print(pcall(fs.read, "big.txt", { ofset = 1 }))

print "-- permissions of new files heed the umask; of those that are replaced they stay"
local process = require "perilune.process"
local r = process.run { "sh", "-c", [[umask 027; "$0" -e 'local fs = require "perilune.fs"
  fs.write("new", "x") fs.write("new atomic", "x", {atomic = true}) fs.open("new open", "w"):close()
  fs.write("old", "x", {atomic = true})']], arg[-1] }
io.write(r.stdout, r.stderr)
fs.write("old", "x")
os.execute "chmod 604 old"
process.run { arg[-1], "-e", 'require "perilune.fs".write("old", "y", {atomic = true})' }
for _, name in ipairs { "new", "new atomic", "new open", "old" } do print(name, ("%o"):format(fs.stat(name).permissions)) end
local left = 0
for _, name in ipairs(fs.dir ".") do if name:find "%.tmp$" then left = left + 1 end end
print(left)
