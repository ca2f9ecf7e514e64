-- What a remote call costs: an echo, called by many fibers over one connection. `main.lua serve ADDRESS` and `main.lua call ADDRESS [CALLS [CALLERS]]` are the two
-- ends as programs of their own; without arguments both are here, and a few calls are made.
local net, pl, rpc = require "perilune.net", require "perilune", require "perilune.rpc"

local functions = {
  echo = function(...) return ... end,
  -- processor time of this program so far
  clock = os.clock,
}

local function measure(c, calls, callers)
  local text = ("x"):rep(40)
  c:echo(text)
  local client, server, begun = os.clock(), c:clock(), pl.now()
  local done = 0
  pl.scope(function(s)
    for _ = 1, callers do
      s:spawn(function()
        for _ = 1, calls // callers do
          assert(c:echo(text) == text)
          done = done + 1
        end
      end)
    end
  end)
  local took = pl.now() - begun
  io.stderr:write(("%d callers: %.0f calls a second; processor time per call: client %.2f us, server %.2f us\n"):format(
    callers, done / took, (os.clock() - client) / done * 1e6, (c:clock() - server) / done * 1e6))
  return done
end

local role, address = arg[1], arg[2]
if role == "serve" then
  local listener = assert(net.listen(address or "127.0.0.1:7000"))
  print(listener:endpoint())
  io.stdout:flush()
  rpc.serve(listener, functions):await()
elseif role == "call" then
  measure(assert(rpc.connect(address or "127.0.0.1:7000")), math.tointeger(arg[3]) or 100000, math.tointeger(arg[4]) or 12)
elseif role then
  io.stderr:write("usage: main.lua [serve ADDRESS | call ADDRESS [CALLS [CALLERS]]], not '", role, "'\n")
  os.exit(1)
else
  pl.scope(function()
    local listener = assert(net.listen "127.0.0.1:0")
    rpc.serve(listener, functions)
    local c <close> = assert(rpc.connect(listener:endpoint()))
    print("echoed", c:echo(1, "two", 3.5))
    for _, callers in ipairs { 1, 12, 100 } do print(callers .. " callers", measure(c, 1200, callers) .. " calls") end
  end)
end
