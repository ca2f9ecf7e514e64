-- FIFOs in perilune.fs: opening one waits for the other end, and who has given up waits no more.
-- stress: no
local pl, fs = require "perilune", require "perilune.fs"

-- Who has given up keeps no thread: there are fewer of them than opens that were given up, and what comes after needs one.
assert(os.execute "mkfifo noreader nowriter")
pl.scope(function(s)
  for i = 1, 100 do
    s:spawn(function()
      local name, mode = "nowriter", "r"
      if i % 2 == 0 then name, mode = "noreader", "w" end
      local f, _, code = fs.open(name, mode, { timeout = 0.0005 * i })
      assert(not f and code == "timeout", code)
    end)
  end
end)
assert(fs.write("a.txt", "after many", { timeout = 100 }))
print(fs.read("a.txt", { timeout = 100 }))

-- Who has not given up gets what the other end writes, in whatever order the two are opened, and nothing twice.
assert(os.execute "mkfifo meet")
for _, first in ipairs { "r", "w" } do
  pl.scope(function(s)
    local there = pl.channel.new()
    local function reader()
      if first == "w" then there:recv() pl.sleep(0.01) end
      if first == "r" then there:send(true) end
      local f = assert(fs.open("meet", "r", { timeout = 100 }))
      return f:read_all(), f:close()
    end
    local function writer()
      if first == "r" then there:recv() pl.sleep(0.01) end
      if first == "w" then there:send(true) end
      local f = assert(fs.open("meet", "w", { timeout = 100 }))
      return f:write "what is written", f:close()
    end
    local r, w = s:spawn(reader), s:spawn(writer)
    print("meet", w:await())
    print("meet", r:await())
  end)
end
-- A writer that writes nothing is one, and so is one that has gone.
pl.scope(function(s)
  local r = s:spawn(fs.open, "meet", "r", { timeout = 100 })
  local w = assert(fs.open("meet", "w", { timeout = 100 }))
  local f = r:await()
  print("open", f ~= nil)
  f:set { read_timeout = 0.01 }
  print("open", f:read())
  w:close()
  f:set { read_timeout = false }
  print("gone", f:read())
  f:close()
end)
assert(os.execute "mkfifo all")
pl.scope(function(s)
  local r = s:spawn(fs.read, "all", { timeout = 100 })
  print("write", fs.write("all", "all of it", { timeout = 100 }))
  print("read", r:await())
end)

-- A reader that has gone is an error for who writes, and ends nobody.
assert(os.execute "mkfifo lost left")
pl.scope(function(s)
  local r = s:spawn(fs.open, "lost", "r", { timeout = 100 })
  local w = assert(fs.open("lost", "w", { timeout = 100 }))
  assert(r:await()):close()
  print("write", w:write "x")
  w:close()
end)
pl.scope(function(s)
  local w = s:spawn(fs.write, "left", ("x"):rep(1 << 20), { timeout = 100 })
  local r = assert(fs.open("left", "r", { timeout = 100 }))
  assert(r:read(10) == "xxxxxxxxxx")
  r:close()
  print("write", w:await())
end)
