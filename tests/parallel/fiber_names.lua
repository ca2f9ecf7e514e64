-- What tools and pl.fibers call fibers that the library starts for a program's function: by that function, and those of a listener by what they do.
local pl, net = require "perilune", require "perilune.net"

local function names()
  local all = {}
  for _, fiber in ipairs(pl.fibers()) do all[#all + 1] = (fiber.name:gsub("127.0.0.1:%d+", "ADDRESS")) end
  table.sort(all)
  for n, name in ipairs(all) do
    assert(not name:find("perilune:", 1, true), name)
    io.write(n > 1 and ", " or "", name)
  end
  print()
end

local gate = pl.channel.new()
local function waits() gate:recv() end

-- The functions' own lines.
pl.scope(function(s)
  s:spawn(function()
    pl.each({ 1, 2 }, waits)
  end)
  s:spawn(function()
    pl.each({ 1, 2, 3 }, { limit = 1 }, function(_, _, further) gate:recv() end, "further")
  end)
  s:spawn(function()
    pl.all { waits, function() gate:recv() end }
  end)
  s:spawn(function()
    pl.race { waits, function() gate:recv() end }
  end)
  local after, every = pl.after(1000, waits), pl.every(1000, waits)
  -- All of them have begun, and wait.
  for _ = 1, 10 do pl.yield() end
  names()
  gate:close()
  after:cancel()
  every:cancel()
end)

-- A listener that several domains serve.
pl.scope(function(s)
  local l = assert(net.listen "127.0.0.1:0")
  local served = s:spawn(function()
    return l:serve(function(c) c:write "hello\n" end, { domains = 2 })
  end)
  local c <close> = assert(net.connect(l:endpoint()))
  print(c:read_line())
  names()
  l:close(1)
  print(served:await())
end)

-- Tasks of the library's own are called by the program's function, in what is said of failures too.
local pool <close> = pl.pool.new { workers = 1, name = "p" }
local seen = pl.channel.new()
local task = pool:async(function()
  pool:map({ 1, 2 }, function(v)
    for _, fiber in ipairs(require "perilune".fibers()) do seen:send(fiber.name) end
    return v
  end, { chunk = 2 })
end)
task:await()
seen:close()
local all = {}
for name in seen do all[name] = true end
for name in pairs(all) do assert(not name:find("perilune:", 1, true), name) end
print(next(all) ~= nil)
