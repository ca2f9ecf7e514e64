-- Time limits of perilune.fs: each operation has the option, open files have set{}, as connections do. What needs no wait is done whatever the limit says.
-- stress: no
local pl, fs = require "perilune", require "perilune.fs"

-- A FIFO keeps whoever opens it waiting until the other end is opened, too; that end is opened without a wait by the process's own descriptors.
assert(os.execute "mkfifo reads writes opens")
print("read", fs.read("reads", { timeout = 0.01 }))
print("write", fs.write("writes", "x", { timeout = 0.01 }))
print("open", fs.open("opens", "r", { timeout = 0.01 }))
print("in a fiber", pl.scope(function(s) return s:spawn(fs.open, "opens", "r", { timeout = 0.01 }):await() end))
print("the shorter one", pl.timeout(100, fs.open, "opens", "r", { timeout = 0.01 }))
print("the shorter one", pl.timeout(0.01, fs.open, "opens", "r", { timeout = 100 }))

-- What there is, is there in time, or comes as soon as it can be had.
assert(fs.write("a.txt", "hello", { timeout = 100, sync = true }))
print(fs.read("a.txt", { timeout = 100 }), fs.read("a.txt", { timeout = 100, offset = 1, length = 3 }), fs.read("a.txt", { timeout = false }))
print(fs.stat("a.txt", { timeout = 100 }).size, fs.mkdir("d", { timeout = 100, parents = true }), fs.rename("a.txt", "d/b.txt", { timeout = 100 }))
print(fs.dir("d", { timeout = 100 })[1], fs.sync("d", { timeout = 100 }), fs.stat(fs.temporary("d", { timeout = 100 }), { timeout = 100 }).size)
print(fs.remove("d", { timeout = 100, recursive = true }), fs.stat("d", { timeout = 100 }))
local w <close> = assert(fs.watch(".", { timeout = 100 }))

-- Open files: of a FIFO that is open in both directions nobody else has an end.
local f <close> = assert(fs.open("opens", "r+", { timeout = 100 }))
print(f:set { read_timeout = 0.01 } == f)
print("read", f:read())
print("read_line", f:read_line())
print("read_all", f:read_all())
print(pcall(function() for _ in f:lines() do end end))
f:set { read_timeout = false }
f:write "one\ntw"
print(f:read_line())
f:set { read_timeout = 0.01 }
print(f:read_line())
f:set { read_timeout = false, write_timeout = 0.01 }
print("what has come stays", f:read(2))
-- A FIFO holds 64 KiB.
print("write", f:write(("x"):rep(1 << 20)))
-- The next one waits until that one has let go of the file.
f:set { write_timeout = 100 }
print("write", select("#", f:write ""))
-- The limit is for an operation as a whole: a byte now and then does not keep it going.
assert(os.execute "mkfifo drip")
local drip <close> = assert(fs.open("drip", "r+"))
drip:set { read_timeout = 0.3 }
pl.scope(function(s)
  s:daemon(function() while true do drip:write "x" pl.sleep(0.02) end end)
  print("drip", drip:read_line())
end)

-- Limits of locks are options of `lock`.
local one <close> = fs.open("lock", "w")
local two <close> = fs.open("lock", "w")
print(one:lock { timeout = 0 }, two:lock { timeout = 0.01 })

-- Mistakes.
print(pcall(fs.dir, ".", 5))
print(pcall(fs.dir, ".", { timeout = "soon" }))
print(pcall(fs.dir, ".", { timeout = 0 / 0 }))
print(pcall(fs.sync, ".", { timout = 1 }))
print(pcall(f.set, f, { timeout = 1 }))
print(pcall(f.set, f, { read_timeout = true }))
print(pcall(f.read, f, { timeout = 1 }))
