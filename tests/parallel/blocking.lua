-- What blocks in the standard library blocks its fiber and nothing else: pipes, FIFOs, commands. A cancelled one ends at once, and many need no threads.
-- stress: no
local pl = require "perilune"
local function threads()
  return tonumber(io.open("/proc/self/status"):read("a"):match("Threads:%s*(%d+)"))
end
local function left()
  local f <close> = io.popen("ls /proc/$PPID/fd | wc -l")
  return f:read("n")
end

-- A command that waits until it is told to go on, and what tells it so.
local gate = os.tmpname()
local function after_gate(before, behind)
  os.remove(gate)
  return ("%s; until test -e %s; do sleep 0.01; done; %s"):format(before, gate, behind)
end
local function open_gate() io.open(gate, "w"):close() end

-- Formats whose bytes come late, in one operation. (The gate is away before anybody opens it.)
local command = after_gate("true", "for i in 1 2 3; do sleep 0.03; echo $i; done")
pl.scope(function(s)
  for i = 1, 3 do
    s:spawn(function()
      local f = assert(io.popen("printf 'line " .. i .. "\\n4'; sleep 0.03; echo '2 rest'; sleep 0.01; printf 'last'; exit 3"))
      local a, b, c, d = f:read("l", "n", 2, "a")
      assert(a == "line " .. i and b == 42 and c == " r" and d == "est\nlast", a)
      assert(f:read("l") == nil and f:read("a") == "")
      local ok, what, code = f:close()
      assert(ok == nil and what == "exit" and code == 3)
    end)
  end
  local order = {}
  s:spawn(function()
    for line in io.popen(command):lines() do order[#order + 1] = line end
    print(table.concat(order, " "))
  end)
  s:spawn(function() order[#order + 1] = "meanwhile" open_gate() end)
  s:spawn(function()
    for a, b in io.popen("sleep 0.02; echo '1 2'; echo '3 4'"):lines("n", "n") do assert(a + 1 == b) end
  end)
end)

-- Writing, closing, commands.
pl.scope(function(s)
  s:spawn(function()
    local f = io.popen("sleep 0.05; test `wc -c` = 1000000; exit $?", "w")
    for _ = 1, 100 do assert(f:write(("x"):rep(9000), 1, ("x"):rep(999)) == f) end
    print("written", f:close())
  end)
end)
do
  -- Which of them ends first depends on the machine.
  local ends = {}
  pl.scope(function(s)
    s:spawn(function()
      local f = io.popen("sleep 0.02; read line; test \"$line\" = hello && exit 5", "w")
      f:setvbuf("line")
      ends[1] = table.pack(f:write("hello\n") == f, f:flush(), f:close())
    end)
    s:spawn(function() ends[2] = table.pack(os.execute("exit 4")) end)
    s:spawn(function()
      local f = io.popen("exec 0<&-; sleep 0.1", "w")
      pl.sleep(0.05)
      local ok, message
      for _ = 1, 100 do ok, message = f:write(("x"):rep(100000)) if not ok then break end end
      ends[3] = table.pack(ok, message)
    end)
  end)
  for _, values in ipairs(ends) do print(table.unpack(values, 1, values.n)) end
end

-- Whatever is cancelled ends at once.
do
  local start = pl.now()
  for _, f in ipairs {
    function() return io.popen("sleep 20"):read() end,
    function() return io.popen("sleep 20"):read("a") end,
    function() for _ in io.popen("sleep 20"):lines() do end end,
    function() return io.popen("sleep 20", "w"):write(("x"):rep(1000000)) end,
    function() return io.popen("sleep 20", "w"):close() end,
    function() local f <close> = io.popen("sleep 20") end,
    function() return os.execute("sleep 20") end,
    function() return io.popen("yes | head -c 100000; sleep 20"):read("a") end,
  } do
    print(pl.timeout(0.03, f))
  end
  print(pl.now() - start < 19)
end

-- What a cancelled read has not handed out is there for the next one.
do
  local f = io.popen(after_gate("printf 'half'", "echo ' whole'; echo more"))
  print(pl.timeout(0.1, f.read, f, "l"))
  open_gate()
  pl.scope(function(s) s:spawn(function() print(f:read("l", "l")) end) end)
  print(f:close())
end

-- Several fibers read from one pipe; each line goes to one of them.
do
  local f = io.popen("for i in `seq 100`; do echo $i; done; sleep 0.05; for i in `seq 101 200`; do echo $i; done")
  local sum, ends = 0, 0
  pl.scope(function(s)
    for _ = 1, 5 do
      s:spawn(function()
        for line in f:lines() do
          sum = sum + line
          pl.yield()
        end
        ends = ends + 1
      end)
    end
  end)
  print(sum, ends, f:close())
end

-- Closed by another fiber.
pl.scope(function(s)
  local f = io.popen(after_gate("true", "true"))
  local one = s:spawn(function() return f:read() end)
  local other = s:spawn(function() return pcall(f:lines()) end)
  pl.sleep(0.02)
  -- Its turn comes when closing waits for the end of the command.
  s:spawn(open_gate)
  print(f:close())
  print(one:await())
  print(other:await())
end)

-- FIFOs: opening waits for the other end.
do
  local name = os.tmpname()
  os.remove(name)
  os.execute("mkfifo " .. name)
  pl.scope(function(s)
    s:spawn(function()
      local f <close> = io.open(name)
      print(f:read("a"))
    end)
    s:spawn(function()
      pl.sleep(0.02)
      local f <close> = io.open(name, "w")
      f:write("through a FIFO")
    end)
  end)
  print(pl.timeout(0.02, io.open, name, "w"))
  print(pl.timeout(0.02, function() return io.open(name):read() end))
  os.remove(name)
end

-- Large results.
pl.scope(function(s)
  s:spawn(function() print(#io.popen("head -c 3000000 /dev/zero"):read("a")) end):await()
  s:spawn(function() print(#io.popen("head -c 3000000 /dev/zero | tr '\\0' x"):read("l")) end):await()
  s:spawn(function() print(#io.popen("head -c 3000000 /dev/zero"):read(2000000)) end):await()
end)

-- A thousand, most of them at a time: no thread each, and no descriptor is left.
do
  collectgarbage()
  local before, most, done = left(), 0, 0
  pl.scope(function(s)
    for i = 1, 1000 do
      s:spawn(function()
        local f = assert(io.popen("sleep 1; echo " .. i))
        assert(f:read("n") == i and f:read("a") == "\n" and f:close())
        done = done + 1
      end)
    end
    pl.sleep(0.1)
    most = threads()
  end)
  print(done, most < 30 or most, left() <= before + 3 or left() - before)
end
os.remove(gate)
