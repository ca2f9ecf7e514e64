-- What ends a server: SIGTERM while `srv:run` serves, and the end of the program, which says so. Each program is a process of its own.
local pl = require "perilune"
local http, process = require "perilune.http", require "perilune.process"

local head = [[
local pl, http, net, rpc = require "perilune", require "perilune.http", require "perilune.net", require "perilune.rpc"
local srv = http.server()
srv:get("/slow", function() print "begun" io.stdout:flush() io.read() return "done" end)
srv:get("/forever", function() print "begun" io.stdout:flush() pl.sleep(1e6) end)
local function ready(l) print(l:endpoint()) io.stdout:flush() end
]]

-- A request is under way when the signal comes. `text`: what the handler may read then.
local function drains(name, options, path, text)
  local p <close> = assert(process.spawn { arg[-1], "-e", head .. 'print("run", srv:run("127.0.0.1:0", ' .. options .. ', ready))', stderr = "stdout" })
  local base = "http://" .. p.stdout:read_line()
  pl.scope(function(s)
    local answer = s:spawn(function()
      local res, _, code = http.get(base .. path, { timeout = 60 })
      return res and res.body or (code == "reset" or code == "closed") and "cut off" or code
    end)
    assert(p.stdout:read_line() == "begun")
    p:kill "TERM"
    -- The listener is closed some time after the signal; until then others are served.
    local _, code
    repeat _, _, code = http.get(base .. "/", { pool = false, timeout = 60 }) until code == "refused"
    if text then
      p.stdin:write(text)
      p.stdin:flush()
    elseif options == "{}" then
      p:kill "TERM"                                         -- a second one
    end
    print(name, "answer", answer:await())
  end)
  local rest = p.stdout:read_all()
  local ended = p:wait()
  print(name, "ended", ended.code, ended.signal, (rest:gsub("\n", "")))
end
drains("drained", "{}", "/slow", "go\n")
drains("in domains", "{ domains = 2 }", "/slow", "go\n")
drains("twice", "{}", "/forever")
drains("late", "{ grace = 0.05 }", "/forever")
drains("alone", "{ drain = false }", "/forever")

-- Mistakes in its options.
for _, options in ipairs { { grace = "long" }, { grace = -1 }, { grace = 0 / 0 }, { drain = 1 }, { dran = true } } do
  print(pcall(http.server().run, http.server(), "127.0.0.1:0", options))
end

-- The signal is the program's again.
local r = process.run { arg[-1], "-e", head .. [[
  pl.scope(function(s)
    local served = s:spawn(function() return srv:run("127.0.0.1:0", function(l) s:spawn(l.close, l) end) end)
    print("closed", served:await())
  end)
  print("cancelled", pl.timeout(0.01, function() return srv:run("127.0.0.1:0") end))
  io.stdout:flush()
  os.execute("kill -TERM $PPID")
  pl.sleep(1e6)
]] }
print(r.stdout, r.signal)

-- A program that ends while it serves.
local function ends(name, text)
  local r = process.run { arg[-1], "-e", head .. text }
  print(name, r.code, (r.stderr:gsub("127%.0%.0%.1:%d+", "ADDRESS")))
end
ends("listens", 'srv:listen "127.0.0.1:0"')
ends("in domains", 'srv:listen("127.0.0.1:0", { domains = 2 })')
ends("calls", 'rpc.serve(net.listen "127.0.0.1:0", {})')
ends("both", 'srv:listen "127.0.0.1:0" rpc.serve(net.listen "127.0.0.1:0", {}, { domains = 2 })')
ends("closed", 'local l = srv:listen "127.0.0.1:0" l:close() local l <close> = srv:listen "127.0.0.1:0"')
ends("in a scope", 'pl.scope(function() srv:listen "127.0.0.1:0" end)')
ends("exits", 'srv:listen "127.0.0.1:0" os.exit(3)')
ends("fails", 'srv:listen "127.0.0.1:0" error("broken", 0)')
