-- perilune.fs: files by their names, from fibers and from programs without any.
-- stress: no
local fs = require "perilune.fs"
local pl = require "perilune"

local function all()
  print(fs.write("a.txt", "hello"), fs.read("a.txt"), fs.read("a.txt", 5))
  print(fs.read("a.txt", 4))
  print(fs.write("a.txt", " world", {append = true}), fs.read("a.txt"))
  print(fs.write("a.txt", "new", {atomic = true, sync = true}), fs.read("a.txt"))
  print(fs.write("empty", ""), fs.read("empty") == "")
  local s = fs.stat("a.txt")
  print(s.type, s.size, s.links, math.type(s.modified), s.permissions & 0x180 == 0x180)
  print(fs.mkdir("d"), fs.mkdir("d"))
  print(fs.mkdir("e/f/g", {parents = true}), fs.stat("e/f/g").type)
  print(fs.rename("a.txt", "d/b.txt"), table.concat(fs.dir("d"), " "), fs.stat("a.txt"))
  print(fs.remove("d"))
  print(fs.sync("d/b.txt"), fs.sync("d"))
  local name = fs.temporary("d")
  print(fs.stat(name).size, fs.stat(name).permissions, #fs.dir("d"))
  print(fs.remove("d/b.txt"), fs.remove(name), fs.remove("d"), fs.remove("e", {recursive = true}), fs.remove("empty"))
  print(fs.read("nothing"))
  print(fs.dir("nothing"))
  print(fs.rename("nothing", "x"))
  print(fs.write("no/such/directory", "x"))
  print(fs.read("/"))
  print(fs.read("/proc/self/comm"))
end
all()
print("in a fiber")
pl.scope(function(s)
  s:spawn(all)
  s:spawn(function() pl.yield() end)
end)

print(pcall(fs.read, "a\0b"))
print(pcall(fs.write, "x", "y", {atomc = true}))
print(pcall(fs.write, "x", "y", {atomic = true, append = true}))
print(pcall(fs.read, "x", -1))

-- Many at a time, on a bounded number of threads; cancelled ones end.
do
  local sum = 0
  pl.scope(function(s)
    for n = 1, 500 do
      s:spawn(function()
        assert(fs.write("f" .. n, ("x"):rep(n)))
        local size = #fs.read("f" .. n)
        sum = sum + size
        assert(fs.remove("f" .. n))
      end)
    end
  end)
  print(sum)
  os.execute("mkfifo fifo")
  -- A file that blocks for ever takes a helper and stops nobody.
  pl.scope(function(s)
    for _ = 1, 3 do s:daemon(fs.read, "fifo") end
    pl.sleep(0.02)
    print(pl.timeout(0.02, fs.read, "fifo"))
    print(fs.write("g", "fine"), fs.read("g"))
  end)
  -- Their helpers are let go.
  os.execute("for i in 1 2 3 4; do timeout 0.2 sh -c ': > fifo'; done")
  os.remove("fifo")
  os.remove("g")
end
