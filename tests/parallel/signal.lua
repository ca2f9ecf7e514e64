-- perilune.signal: signals are messages of channels.
-- stress: no
local signal = require "perilune.signal"
local process = require "perilune.process"
local pl = require "perilune"

local function send(name) assert(process.run{"sh", "-c", "kill -" .. name .. " $PPID"}.code == 0) end

local term = signal.on("TERM")
send("TERM")
print(term:recv())
pl.after(0.02, function() send("TERM") end)
print(term:recv())

-- several in one channel; a select; a name with SIG, a number
local two = signal.on("USR1", "SIGUSR2")
send("USR1")
print(two:recv())
send("USR2")
local which, name = pl.select{two, term}
print(name or which)
local hup = signal.on(1)
send("HUP")
print(hup:recv())

-- every channel of a signal gets it
local again = signal.on("HUP")
send("HUP")
print(hup:recv(), again:recv())

-- they merge: nobody reads, and memory is bounded
for _ = 1, 40 do send("USR1") end
pl.sleep(0.05)
print(#two <= 16)

-- Children begin with the default actions.
print(process.run{"sh", "-c", "kill -TERM $$"}.signal)

-- A service that drains.
do
  local served = 0
  pl.scope(function(s)
    local drain = signal.on("USR2")
    s:daemon(function() while true do pl.sleep(0.001) served = served + 1 end end)
    pl.after(0.03, function() send("USR2") end)
    print("drains", drain:recv(), served > 0)
  end)
end

-- What cannot be.
print(pcall(signal.on, "KILL"))
print(pcall(signal.on, "SEGV"))
print(pcall(signal.on, "NOSUCH"))
print(pcall(signal.on))

-- When its channels are closed, a signal is what it was: this one ends a program.
local r = process.run{arg[-1], "-e", [[
  local signal, pl = require "perilune.signal", require "perilune"
  local c = signal.on("TERM")
  os.execute("kill -TERM $PPID")
  print(c:recv())
  c:close()
  os.execute("kill -TERM $PPID")
  pl.sleep(10)
  print("not reached")
]]}
print(r.stdout, r.code, r.signal)

-- Ctrl-C belongs to the channel for as long as there is one.
local r = process.run{arg[-1], "-e", [[
  local signal, pl = require "perilune.signal", require "perilune"
  local c = signal.on("INT")
  os.execute("kill -INT $PPID")
  print(c:recv())
]]}
print(r.stdout, r.code, r.signal)
