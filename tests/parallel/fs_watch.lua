-- Changes of files.
-- stress: no
local pl = require "perilune"
local fs = require "perilune.fs"

local folder = fs.temporary()
fs.remove(folder)
assert(fs.mkdir(folder))
local function path(name) return folder .. "/" .. name end
local function told(change) return change.kind, change.path:sub(#folder + 2), change.directory end

print "-- what happens in a directory"
do
  local w <close> = assert(fs.watch(folder))
  print(w:recv(0))
  print(w:recv(0.01))
  fs.write(path "a", "1")
  print(told(w:recv(10)))
  print(told(w:recv(10)))
  print(told(w:recv(10)))
  fs.mkdir(path "d")
  print(told(w:recv(10)))
  fs.rename(path "a", path "b")
  print(told(w:recv(10)))
  print(told(w:recv(10)))
  fs.remove(path "b")
  print(told(w:recv(10)))
  fs.remove(path "d")
  print(told(w:recv(10)))
  print(w:recv(0))
end

print "-- one file, by its name: absent, written, replaced, removed, back"
do
  local w <close> = assert(fs.watch(path "config"))
  fs.write(path "other", "passed over")
  print(w:recv(0.01))
  for n = 1, 2 do
    fs.write(path "config", tostring(n), { atomic = true })
    print(told(w:recv(10)))
    print(told(w:recv(10)))
  end
  local f = fs.open(path "config", "a")
  f:write "3"
  print(told(w:recv(10)))
  f:close()
  print(told(w:recv(10)))
  fs.remove(path "config")
  print(told(w:recv(10)))
  fs.write(path "config", "")
  print(told(w:recv(10)))
end

print "-- waited for: a fiber, a loop, a select, a timeout"
do
  local w, seen = assert(fs.watch(path "log")), pl.channel.new()
  pl.scope(function(s)
    s:spawn(function()
      for change in w do if change.kind == "written" then print "written" seen:send(true) end end
      print "the loop has ended"
    end)
    pl.sleep(0.01)
    print((select(2, pcall(w.recv, w)):match "the watch is being read already"))
    fs.write(path "log", "x")
    assert(seen:recv(10))
    print(w:close(), w:close())
  end)
  print(w:recv())
  local w <close> = assert(fs.watch(path "log"))
  local news = pl.channel.new()
  pl.after(0.01, function() fs.write(path "log", "y", { append = true }) end)
  local case, change = pl.select { news, w, timeout = 10 }
  -- Written to, and closed: both may have happened when it is looked at.
  local kind, name, missed = told(change)
  print(case, kind == "changed" or kind == "written", name, missed)
  while kind ~= "written" do kind = told(w:recv(10)) end
  print(pl.timeout(0.01, function() while true do w:recv() end end))
  print(pl.select { w, timeout = 0 })
end

print "-- too many: told that some are missed, and goes on"
do
  local w <close> = assert(fs.watch(folder))
  local most = tonumber((fs.read "/proc/sys/fs/inotify/max_queued_events"))
  for n = 1, most do
    local f = io.open(path("many" .. n % 2), "w")
    f:close()
  end
  local kinds = {}
  while true do
    local change = w:recv(0)
    if not change then break end
    kinds[change.kind] = true
  end
  print(kinds.missed)
  fs.write(path "after", "")
  print(told(w:recv(10)))
end

print "-- the directory goes"
do
  local inner = path "inner"
  fs.mkdir(inner)
  local w <close> = assert(fs.watch(inner))
  fs.remove(inner)
  local change = w:recv(10)
  print(change.kind, change.path == inner, change.directory)
  print(w:recv(10))
end

print "-- what fails"
print((select(3, fs.watch "/nowhere/at/all")))
print(pcall(fs.watch))
fs.remove(folder, { recursive = true })
