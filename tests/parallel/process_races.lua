-- A program that ends at the very moment it is waited for, waited for with a time, or killed: each of those who ask hears of one end, and all of the same. Programs that are started by several domains
-- at once get no descriptor but those that they are to have.
-- stress: no
local pl, process, fs, net = require "perilune", require "perilune.process", require "perilune.fs", require "perilune.net"

-- What an end is as a text; nil if it is none.
local function told(outcome, _, code)
  if outcome == nil then return code == "timeout" and "timeout" or error("neither an end nor a time: " .. tostring(code)) end
  return outcome.code and "code " .. outcome.code or "signal " .. outcome.signal
end

print "-- waited for while it ends"
do
  local right, ends = 0, {}
  for n = 1, 200 do
    -- Ends when its input does.
    local p <close> = assert(process.spawn { "sh", "-c", "read line; exit 3", stdout = "null" })
    local heard = {}
    pl.scope(function(s)
      for i = 1, 3 do
        s:spawn(function()
          for _ = 1, n % 4 * i do pl.yield() end
          local outcome
          repeat outcome = told(p:wait(n % 5 * 0.0003)) until outcome ~= "timeout"
          heard[i] = outcome
        end)
      end
      s:spawn(function()
        for _ = 1, n % 7 do pl.yield() end
        p.stdin:close()
      end)
    end)
    if heard[1] == "code 3" and heard[2] == "code 3" and heard[3] == "code 3" and told(p:wait(0)) == "code 3" then right = right + 1 end
  end
  print(right)
end

print "-- killed while it ends: by itself or by that, and nobody else is"
do
  local right, strange = 0, nil
  for n = 1, 200 do
    local p <close> = assert(process.spawn { "sh", "-c", "read line; exit 3", stdout = "null" })
    local heard, sent, code
    pl.scope(function(s)
      s:spawn(function() heard = told(p:wait()) end)
      s:spawn(function()
        if n % 2 == 0 then pl.sleep(n % 5 * 0.0002) end
        local _
        sent, _, code = p:kill "KILL"
      end)
      p.stdin:close()
    end)
    local late = select(3, p:kill "KILL")
    if (heard == "code 3" or heard == "signal KILL" and sent) and (sent or code == "ESRCH") and late == "ESRCH" then
      right = right + 1
    else
      strange = table.concat({ heard, tostring(sent), tostring(code), tostring(late) }, ", ")
    end
  end
  print(right, strange)
end

print "-- descriptors of children of several domains"
do
  local listener = assert(net.listen "127.0.0.1:0")
  local stop = pl.atomic(0)
  -- Opens and closes all the time what children must not get.
  local function opens(listener, stop)
    local pl, fs, net = require "perilune", require "perilune.fs", require "perilune.net"
    while stop:load() == 0 do
      local client <close> = assert(net.connect(listener:endpoint()))
      local server <close> = assert(listener:accept(100))
      local udp <close> = assert(net.udp "127.0.0.1:0")
      local own <close> = assert(net.listen "127.0.0.1:0")
      local file <close> = assert(fs.open("/dev/null", "w"))
      local other <close> = assert(io.open "/dev/null")
      local temporary <close> = assert(io.tmpfile())
      local watch <close> = assert(fs.watch "/tmp")
      local p <close> = assert(io.popen "true")
    end
  end
  -- The descriptors of a child beyond its three: the last one is that with which it looks.
  local function starts(way, given)
    local pl, process = require "perilune", require "perilune.process"
    local look = "ls /proc/self/fd | tr '\\n' ' '"
    local ways = {
      run = function() return process.run({ "sh", "-c", look }).stdout end,
      popen = function() local f <close> = io.popen(look) return f:read "a" end,
      spawn = function()
        local p <close> = assert(process.spawn { "sh", "-c", look, stdin = "null" })
        local text = p.stdout:read_all()
        p:wait()
        return text
      end,
      execute = function()
        local name = os.tmpname()
        os.execute(("ls /proc/self/fd > %s"):format(name))
        local f <close> = assert(io.open(name))
        local text = f:read "a":gsub("\n", " ")
        os.remove(name)
        return text
      end,
    }
    local leaked, other = 0, nil
    for _ = 1, given and 40 or 1 do
      local text = ways[way]()
      if not given then return text end
      if text ~= given then leaked, other = leaked + 1, text end
    end
    return way, leaked, other
  end
  -- What this program has been given itself, and passes on.
  local given = starts "run"
  local domains = {}
  for n = 1, 2 do domains[n] = pl.domain.spawn("opens " .. n, opens, listener, stop) end
  local said = {}
  for n, way in ipairs { "execute", "popen", "run", "spawn" } do said[n] = pl.domain.spawn("starts " .. n, starts, way, given) end
  for _, domain in ipairs(said) do print(domain:join()) end
  stop:store(1)
  for _, domain in ipairs(domains) do domain:join() end
  listener:close()
end
