-- l:close(grace): waits for rpc.serve, in one domain and in several: calls are answered, connections without calls are closed, and what goes on after that time is cancelled.
local pl, net, rpc = require "perilune", require "perilune.net", require "perilune.rpc"

for _, domains in ipairs { 0, 2 } do
  local options = { domains = domains > 0 and domains or nil }
  -- `seconds`: what the one call has to do yet when the listener is closed, if there is one.
  local function serve(what, seconds, close)
    local l = assert(net.listen "127.0.0.1:0")
    local begun, noticed = pl.channel.new(), pl.channel.new(1)
    pl.scope(function(s)
      local serving = rpc.serve(l, {
        work = function(seconds)
          begun:send(true)
          require "perilune".sleep(seconds)
          return "done"
        end,
        note = function(seconds)
          begun:send(true)
          require "perilune".sleep(seconds)
          noticed:send "noted"
        end,
        ping = function() return "pong" end,
      }, options)
      local c <close> = assert(rpc.connect(l:endpoint()))
      local idle <close> = assert(rpc.connect(l:endpoint()))
      assert(c:ping() == "pong" and idle:ping() == "pong")
      local caller = seconds and s:spawn(function()
        local ok, result = pcall(c.work, c, seconds)
        return ok and result or "failed"
      end)
      if what == "note" then c:notify("note", 0.05) end
      if seconds or what == "note" then begun:recv() end
      local by_themselves = close(l)
      print(domains, what, by_themselves, caller and caller:await())
      if what == "note" then print(noticed:recv(10)) end
      if what == "plain" then
        assert(idle:ping() == "pong" and l:close(60) == true)
      else
        -- The server has closed them.
        while not (c:is_closed() and idle:is_closed()) do pl.sleep(0.001) end
        serving:await()
      end
    end)
  end
  serve("idle", nil, function(l) return l:close(600) end)
  serve("call", 0.05, function(l) return l:close(600) end)
  serve("long", 600, function(l) return l:close(0.05) end)
  serve("at once", 600, function(l) return l:close(0) end)
  serve("note", nil, function(l) return l:close(600) end)
  -- Without a time connections go on.
  serve("plain", 0.05, function(l) return l:close() end)
  -- Who has less time comes first.
  if domains == 0 then
    serve("twice", 600, function(l)
      local first = pl.after(0, function() return l:close(600) end)
      pl.sleep(0.01)
      return l:close(0.01)
    end)
  end
end

-- No room for more: the one that waits is accepted, and closed with the others.
local l = assert(net.listen "127.0.0.1:0")
pl.scope(function(s)
  local begun = pl.channel.new()
  local functions = {
    ping = function() return "pong" end,
    sleep = function()
      begun:send(true)
      pl.sleep(600)
    end,
  }
  rpc.serve(l, functions, { max = 1 })
  local c <close> = assert(rpc.connect(l:endpoint()))
  assert(c:ping() == "pong")
  local sleeper = s:spawn(function() return (pcall(c.sleep, c)) end)
  local other <close> = assert(rpc.connect(l:endpoint()))
  begun:recv()
  print("full", l:close(0.05), sleeper:await())
  while not other:is_closed() do pl.sleep(0.001) end
end)
