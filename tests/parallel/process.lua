-- perilune.process: running programs, their streams, their ends; nothing is left behind, however they end.
-- stress: no
local process = require "perilune.process"
local pl = require "perilune"

-- What a program says, and how it ends.
do
  local r = assert(process.run{"sh", "-c", "cat; echo problem >&2; exit 3", stdin = "hello\n"})
  print(r.code, r.signal, r.stdout, r.stderr)
  local r = process.run{"sh", "-c", "kill -9 $$"}
  print(r.code, r.signal, r.stdout == "", r.stderr == "")
  local r = process.run{"sh", "-c", "echo out; echo err >&2", stderr = "stdout"}
  print(r.stdout, r.stderr)
  print(process.run{"cat"}.stdout == "")
  print(process.run{"echo", 1, 2.5, "three"}.stdout)
  print(process.run{"sh", "-c", "echo $NAME ${HOME-none}", env = {NAME = "value", HOME = false}}.stdout)
  print(process.run{"/usr/bin/env", clear_env = true, env = {A = "1"}}.stdout)
  print(process.run{"pwd", cwd = "/"}.stdout)
  -- more than any pipe holds, in both directions at a time
  local text = ("0123456789"):rep(500000)
  print(process.run{"cat", stdin = text}.stdout == text)
  -- input that nobody reads
  print(process.run{"true", stdin = text}.code)
end

-- What fails.
print(process.run{"no-such-program"})
print(process.run{"true", cwd = "/no/such/directory"})
print(process.run{"sh", "-c", "sleep 100", timeout = 0.02})
print(process.run{"yes", limit = 1000})
print(pcall(process.run, {}))
print(pcall(process.run, {"true", timeot = 1}))
print(pcall(process.run, {"true", env = {["A=B"] = "1"}}))
print(pcall(process.run, {"a\0b"}))
print(pcall(process.run, {"true", stdin = 1}))
print(pcall(process.spawn, {"true", stderr = "nowhere"}))
print(pcall(process.run, {"true", {}}))

-- A conversation.
do
  local p = assert(process.spawn{"cat"})
  p.stdin:write("one\n", "two\n")
  print(p.stdout:read_line(), p.stdout:read_line())
  print(p:wait(0.01))
  print(p.stdin:close(), p.stdout:read_line())
  print(p.stderr:read_all() == "", p:wait().code, p:wait().code)
  print(p:kill() == nil, select(3, p:kill()))
  print(math.type(p.pid), p.nothing)
end

-- Lines, as they come.
do
  local p <close> = assert(process.spawn{"sh", "-c", "for i in 1 2 3; do echo $i; done", stdin = "null", stderr = "inherit"})
  print(p.stdin, p.stderr)
  for line in p.stdout:lines() do io.write(line, " ") end
  print(p:wait().code)
end

-- A program that ends while it is written to.
do
  local p = assert(process.spawn{"true"})
  p:wait()
  p.stdin:write("x")
  print(p.stdin:flush())
  print(p.stdin:write("x"))
  print(p.stdin:close())
end

-- Signals reach the group: the shell and what it has started.
do
  local p = assert(process.spawn{"sh", "-c", "sleep 100 & echo $!; wait"})
  local child = p.stdout:read_line()
  print(p:kill("KILL"), p:wait().signal)
  print(p.stdout:read_line())        -- nobody holds the pipe any more
  print(process.run{"sh", "-c", "trap 'exit 7' USR1; kill -USR1 $$; sleep 1"}.code)
  local p = assert(process.spawn{"sh", "-c", "trap 'echo got; exit 0' TERM; echo ready; while :; do sleep 0.01; done"})
  p.stdout:read_line()
  print(p:kill(), p.stdout:read_line(), p:wait().code)
  print(pcall(p.kill, p, "NOSIG"))
end

-- A time that is over ends all of the group, also when the shell itself has ended before.
do
  local start = pl.now()
  print(process.run{"sh", "-c", "sleep 100 &", timeout = 0.05})
  print(process.run{"sh", "-c", "sleep 100; echo", timeout = 0.05})
  print(pl.now() - start < 20)
end

-- Cancelling.
do
  local start = pl.now()
  print(pl.timeout(0.02, function() return process.run{"sleep", "100"} end))
  pl.scope(function(s)
    for _ = 1, 20 do s:daemon(function() process.run{"sh", "-c", "sleep 100 | sleep 100"} end) end
    for _ = 1, 20 do
      s:daemon(function()
        local p <close> = process.spawn{"sleep", "100"}
        p:wait()
      end)
    end
    pl.sleep(0.05)
  end)
  print(pl.now() - start < 20)
end

-- The end of a scope.
do
  local out
  do
    local p <close> = process.spawn{"sleep", "100"}
    out = p.stdout
  end
  print(out:read())
end

-- Two fibers wait for one process; another domain does too, and has its streams.
do
  local p = process.spawn{"sh", "-c", "read line; echo $line; exit 4"}
  local d = pl.domain.spawn(function(p)
    local line = p.stdout:read_line()
    return line, p:wait().code
  end, p)
  pl.scope(function(s)
    local a = s:spawn(function() return p:wait().code end)
    local b = s:spawn(function() return p:wait().code end)
    pl.sleep(0.01)
    p.stdin:write("from here\n")
    p.stdin:flush()
    print(a:await(), b:await())
  end)
  print(d:join())
end

-- Many at a time: no threads, and nothing is left.
local function left()
  -- What belongs to the shell itself is not counted.
  local r = process.run{"sh", "-c", "ls /proc/$PPID/fd | wc -l; grep -l \"^PPid:.$PPID$\" /proc/[0-9]*/status 2>/dev/null | wc -l; grep Threads /proc/$PPID/status"}
  local fds, children, threads = r.stdout:match("(%d+)%s+(%d+)%s+Threads:%s+(%d+)")
  return tonumber(fds), tonumber(children), tonumber(threads)
end
do
  local fds = left()
  local most = 0
  pl.scope(function(s)
    for n = 1, 100 do
      s:spawn(function()
        local r = process.run{"sh", "-c", "sleep 0.3; echo " .. n}
        assert(r.stdout == n .. "\n" and r.code == 0)
      end)
    end
    pl.sleep(0.01)
    most = select(3, left())
  end)
  for _ = 1, 50 do process.spawn{"true"} end
  collectgarbage()
  collectgarbage()
  local children, now
  for _ = 1, 500 do
    now, children = left()
    if children == 1 and now <= fds + 2 then break end
    pl.sleep(0.02)
  end
  print(children, now <= fds + 2 or now - fds, most < 30)
end
