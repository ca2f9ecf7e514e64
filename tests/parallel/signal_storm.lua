-- Signals that come without end: system calls that are interrupted are made again, nothing is lost, nothing fails.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local fs = require "perilune.fs"
local process = require "perilune.process"
local signal = require "perilune.signal"

local storm <close> = assert(signal.on("USR1"))
local loud = assert(process.spawn { "sh", "-c", "while kill -USR1 $PPID 2> /dev/null; do :; done" })
local name = fs.temporary()

pl.scope(function(s)
  local l = net.listen("127.0.0.1:0")
  s:daemon(function()
    for c in l do
      s:daemon(function()
        local c <close> = c
        for line in c:lines() do c:write(line, "\n") c:flush() end
      end)
    end
  end)
  local heard, done = 0, false
  s:daemon(function() for _ in storm do heard = heard + 1 end end)

  local c <close> = net.connect(l:endpoint())
  local right = 0
  for n = 1, 500 do
    c:write(n, "\n") c:flush()
    if c:read_line() == tostring(n) then right = right + 1 end
  end
  print("lines", right)

  right = 0
  for n = 1, 20 do
    local c <close> = assert(net.connect(l:endpoint()))
    c:write("x\n")
    if c:read_line() == "x" then right = right + 1 end
  end
  print("connections", right)

  right = 0
  for n = 1, 50 do
    assert(fs.write(name, tostring(n)))
    if fs.read(name) == tostring(n) then right = right + 1 end
  end
  print("files", right)

  right = 0
  for n = 1, 20 do
    local r = assert(process.run { "cat", stdin = "to and fro" })
    if r.code == 0 and r.stdout == "to and fro" then right = right + 1 end
  end
  print("processes", right)

  local before = pl.now()
  for _ = 1, 20 do pl.sleep(0.005) end
  print("sleeps", pl.now() - before >= 0.1)

  -- what blocks outside of fibers, too
  local f = io.popen("sleep 0.05; echo at last", "r")
  print(f:read "l", f:close())
  print(heard > 0)
end)
loud:kill "KILL"
print(loud:wait().signal)
fs.remove(name)
