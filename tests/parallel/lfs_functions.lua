-- lfs: the functions of LuaFileSystem.
local lfs = require "lfs"
local names = {}
for name in pairs(lfs) do names[#names + 1] = name end
table.sort(names)
print(table.concat(names, " "))

local here = lfs.currentdir()
print(lfs.mkdir("d"), lfs.mkdir("d"))
print(lfs.chdir("d"), lfs.currentdir() == here .. "/d")
print(lfs.chdir("nothing"))
local f = assert(io.open("file", "w")) f:write("12345") f:close()
print(lfs.touch("file", 1000, 2000), lfs.attributes("file", "access"), lfs.attributes("file", "modification"))
print(lfs.touch("file", 3000), lfs.attributes("file", "access"), lfs.attributes("file", "modification"))
print(lfs.touch("file"), lfs.attributes("file", "modification") > 1000000000)
print(lfs.touch("nothing"))
print(lfs.link("file", "soft", true), lfs.link("file", "hard"), lfs.link("nothing", "x"))
local a = lfs.attributes("file")
print(a.mode, a.size, a.nlink, a.permissions:sub(1, 2), a.uid == lfs.attributes(".", "uid"))
print(lfs.attributes("soft", "mode"), lfs.symlinkattributes("soft", "mode"), lfs.symlinkattributes("soft", "target"))
print(lfs.symlinkattributes("soft").target, lfs.attributes("soft").target)
local t = {kept = true}
print(lfs.attributes("file", t) == t, t.kept, t.size, t.ino == lfs.attributes("hard", "ino"))
print(lfs.attributes("nothing"))
print(lfs.attributes("nothing", "mode"))
print(pcall(lfs.attributes, "file", "colour"))
print(lfs.attributes("/dev/null", "mode"), lfs.attributes("/", "mode"))

local function list(path)
  local found = {}
  for name in lfs.dir(path) do found[#found + 1] = name end
  table.sort(found)
  return table.concat(found, " ")
end
print(list("."))
local next, dir = lfs.dir(".")
print(type(next), type(dir), type(dir:next()), dir:close())
print(pcall(dir.next, dir))
for name in lfs.dir(".") do break end
print(pcall(lfs.dir, "nothing"))
print(pcall(next))

local f = assert(io.open("file", "r+"))
print(lfs.lock(f, "w"), lfs.lock(f, "r", 0, 2), lfs.unlock(f), lfs.setmode(f, "binary"))
print(lfs.setmode(f, "text"))
print(pcall(lfs.lock, f, "x"))
print(pcall(lfs.setmode, f, "other"))
f:close()
print(pcall(lfs.lock, f, "w"))
print(pcall(lfs.unlock, 1))

local lock = assert(lfs.lock_dir("."))
print(lfs.lock_dir("."))
print(lfs.symlinkattributes("lockfile.lfs", "mode"))
lock:free()
lock:free()
print(lfs.symlinkattributes("lockfile.lfs", "mode"))
do local l <close> = lfs.lock_dir(".") end
print(lfs.lock_dir(".", 10) ~= nil, lfs.lock_dir("/no/such/directory"))
collectgarbage()
collectgarbage()

for _, name in ipairs {"file", "soft", "hard", "lockfile.lfs"} do os.remove(name) end
print(lfs.chdir(here), lfs.rmdir("d"), lfs.rmdir("d"))
