-- Writes to one pipe take turns. One that comes while another waits for its bytes to go waits for that one, also when
-- the pipe has just become writable and the other has not run yet.
local pl = require "perilune"
local name = os.tmpname()
local read, go = name .. ".read", name .. ".go"
os.execute("mkfifo " .. go)

local function exists(path)
  local f <close> = io.open(path)
  return f ~= nil
end

-- A process that reads some, says so, and reads the rest when it is told to.
local function slow_reader()
  os.remove(read)
  return assert(io.popen(("head -c 100000 > /dev/null; echo > %s; read go < %s; tr -s a-z | fold"):format(read, go), "w"))
end

-- Keeps the domain busy until the pipe has space again, and everybody has been told.
local function until_it_has_read()
  local since
  repeat
    if not since and exists(read) then since = os.clock() end
  until since and os.clock() - since > 0.05
end

local function let_go()
  local f <close> = assert(io.open(go, "w"))
  f:write "go\n"
end

io.stdout:flush()
local p = slow_reader()
pl.scope(function(s)
  local first = s:spawn(function() p:write(("x"):rep(1000000), "\n") return "first" end)
  pl.yield()
  until_it_has_read()
  local second = s:spawn(function() p:write "second\n" return "second" end)
  local third = s:spawn(function() p:write "third\n" return "third" end)
  pl.yield()
  let_go()
  print(first:await(), second:await(), third:await())
end)
print(p:close())

-- The one that is waited for is cancelled after it has been told that there is space: the others go on.
p = slow_reader()
pl.scope(function(s)
  local first = s:spawn(function() p:write(("x"):rep(1000000), "\n") end)
  pl.yield()
  until_it_has_read()
  local others = {}
  for i = 1, 3 do others[i] = s:spawn(function() p:write "other\n" return i end) end
  pl.yield()
  first:cancel()
  let_go()
  for i = 1, 3 do io.write(others[i]:await(), " ") end
  print(first:status())
end)
print((p:close()))
os.remove(read)
os.remove(go)
os.remove(name)
