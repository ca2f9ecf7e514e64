-- Closing a file closes it for every domain that has a handle.
local pl = require "perilune"
local spawn = pl.domain.spawn
local name = os.tmpname()
local function content() local f <close> = assert(io.open(name)) return f:read "a" end
local function state(f) return io.type(f), tostring(f), select(2, pcall(f.write, f, "more")) end

-- what was written is in the file when close returns, whoever else has a handle
local f = assert(io.open(name, "w"))
local go = pl.channel.new()
local other = spawn(function(f) go:recv() return state(f) end, f)
f:write "data"
print(f:close(), content())
go:send(true)
print(other:join())
print(state(f))
print(pcall(f.close, f))

-- another domain may be the one that closes, by the end of a block too
f = assert(io.open(name, "w"))
f:write "by another "
print(spawn(function(f) f:write "domain" return f:close() end, f):join(), content(), io.type(f))
f = assert(io.open(name, "w"))
f:write "by a block"
spawn(function(f) local f <close> = f end, f):join()
print(content(), io.type(f))
f = assert(io.open(name, "w"))
f:write "by an error in a block"
print(spawn(function(f) return pcall(function() local f <close> = f error "x" end) end, f):join())
print(content(), io.type(f))

-- a handle that is collected goes alone, and the last one closes the file
f = assert(io.open(name, "w"))
f:write "one handle "
spawn(function(f) f:write "collected, " f = nil collectgarbage() collectgarbage() end, f):join()
f:write "the other not"
print(io.type(f), f:close(), content())
do
  local g = assert(io.open(name, "w"))
  g:write "nobody's"
  spawn(function() g:write " any more" end):join()
end
-- the other domain lets go of its handle when its state is freed, some time after it has been joined
for _ = 1, 10000 do
  collectgarbage()
  if content() ~= "" then break end
  pl.sleep(0.001)
end
print(content())
-- so does one on which the program calls the finaliser
f = assert(io.open(name, "w"))
print(spawn(function(f) getmetatable(f).__gc(f) return io.type(f) end, f):join(), io.type(f))
f:close()

-- iterators of lines
f = assert(io.open(name, "w+"))
f:write "1\n2\n3\n4\n"
f:seek "set"
local step = f:lines()
print(step(), spawn(function(f) local line = f:read() f:close() return line end, f):join())
print(pcall(step))
for line in io.lines(name) do io.write(line, " ") end print()

-- the standard files cannot be closed
print(spawn(function(f) return f:close() end, io.stdout):join())
spawn(function(f) local f <close> = f end, io.stdout):join()
spawn(function(f) getmetatable(f).__gc(f) end, io.stdout):join()
print(io.type(io.stdout))

-- a file in a message that nobody receives
f = assert(io.open(name, "w"))
f:write "sent"
local c = pl.channel.new()
c:send(f)
f:close()
print(content(), io.type(c:recv()))

-- processes: whoever closes gets the status
local p = io.popen("cat > " .. name .. "; exit 3", "w")
p:write "to a process"
print(spawn(function(p) return p:close() end, p):join())
print(content(), io.type(p))

-- A write that is under way is finished first, however long it takes; one that waits is sent away. The process
-- reads enough to prove that the write has begun, and the rest when the file has been seen closed.
local begun, go_on = name .. ".begun", name .. ".go"
os.execute(("mkfifo %s %s"):format(begun, go_on))
p = io.popen(("head -c 100000 > /dev/null; echo begun > %s; read go < %s; wc -c"):format(begun, go_on), "w")
local size = 1000000
local writer = spawn(function(p) return io.type(p:write(("x"):rep(size))) end, p)
do local begun <close> = io.open(begun) print(begun:read()) end
local ready = pl.channel.new()
local waiter = spawn(function(p)
  ready:send(true)
  local ok, result, message = pcall(p.write, p, "never")
  return ok and message or result:gsub(".*attempt to use a closed file", "closed")
end, p)
ready:recv()
local watcher = spawn(function(p)
  while io.type(p) == "file" do pl.sleep(0.001) end
  local f <close> = io.open(go_on, "w")
  f:write "go\n"
end, p)
io.stdout:flush()
print(p:close())
print(writer:join(), (waiter:join()))
watcher:join()

-- A read of what never ends stops at the next piece.
p = io.popen("while echo y; do :; done 2> /dev/null")
local reader = spawn(function(p) p:read() ready:send(true) return p:read "a" end, p)
ready:recv()
p:close()
local ok, a, b = pcall(reader.join, reader)
print(ok and a == nil and b or a:match "attempt to use a closed file" and "closed")

-- many at once: each operation succeeds or says that the file is closed
for round = 1, 20 do
  f = assert(io.open(name, "w+"))
  local crowd = {}
  for i = 1, 4 do
    crowd[i] = spawn(function(f)
      ready:recv()
      for j = 1, 100 do
        local ok, a, b = pcall(j % 3 == 0 and f.flush or j % 3 == 1 and f.write or f.seek, f, j % 3 == 1 and "x" or nil)
        if not ok then return a:match "attempt to use a closed file" or a end
        if a == nil then return b end
      end
      local ok, a = pcall(f.close, f)
      return ok and a or a:match "attempt to use a closed file"
    end, f)
  end
  for i = 1, 4 do ready:send(true) end
  local closers = 0
  for i = 1, 4 do
    local said = crowd[i]:join()
    if said == true then closers = closers + 1
    elseif said ~= "closed" and said ~= "attempt to use a closed file" then print(said) end
  end
  if closers ~= 1 or io.type(f) ~= "closed file" then print(closers, io.type(f)) end
end
os.remove(name)
os.remove(begun)
os.remove(go_on)
