-- Remote calls: values, errors, streams, notifications, many callers, clients and servers in other domains.
local net, pl, rpc = require "perilune.net", require "perilune", require "perilune.rpc"

-- Errors without the server's address, which is another one each time.
local function refused(...)
  local ok, message = pcall(...)
  print(ok, (tostring(message):gsub("127%.0%.0%.1:%d+", "ADDRESS")))
end

local l = assert(net.listen("127.0.0.1:0"))
pl.scope(function(s)
  local told, gate, full = pl.channel.new(), pl.channel.new(), pl.channel.new()
  local here = 0
  rpc.serve(l, {
    add = function(a, b) return a + b end,
    echo = function(...) return ... end,
    fail = function(x) error("no " .. x) end,
    fail_with = function(...) error(...) end,
    tell = function(...) told:send(...) end,
    range = function(from, to) return function(_, i) if i < to then return i + 1 end end, nil, from - 1 end,
    words = function() return ipairs { "one", "two", "three" } end,
    broken = function() local i = 0 return function() i = i + 1 if i == 3 then error("at three", 0) end return i end end,
    call = function(x) return "called " .. x end,
    pass = function() gate:recv() end,
    meet = function(n, ...)
      here = here + 1
      if here == n then full:close() end
      full:recv()
      return ...
    end,
  })
  local c = assert(rpc.connect(l:endpoint()))

  -- values
  print(c:add(2, 3), c:add(0.5, 1))
  print(c:echo())
  print(select("#", c:echo(nil, nil, nil)))
  print(c:echo(nil, false, true, 1, -1, 1 << 40, math.mininteger, 0.1, -0.0, 1 / 0, "", "text", "\0\xff"))
  local t = c:echo { 1, 2, { a = { b = "deep" } }, [10] = 10, name = "both" }
  print(#t, t[3].a.b, t[10], t.name)
  local shared = pl.share { list = { 1, 2, 3 } }
  print(#c:echo(shared).list, getmetatable(c:echo(setmetatable({}, { __index = print }))))
  local cycle = {}
  cycle.inner = { cycle }
  print(pcall(c.echo, c, 1, cycle))
  print(pcall(c.echo, c, { handlers = { [3] = print } }))
  print(#c:echo(("x"):rep(5000000)))

  -- errors
  refused(c.fail, c, "luck")
  refused(c.fail_with, c, "plain", 0)
  local _, e = pcall(c.fail_with, c, { code = 7 })
  print(type(e), e.code)
  print(pcall(c.fail_with, c, print))
  print(pcall(c.no_such, c))
  print(c:try("add", 1, 2))
  print(select(3, c:try("fail", "luck")))
  print(c:try("no_such"))
  print(pcall(c.add))

  -- names that collide, names that are odd
  print(c:call("call", 7), c:call("add", 1, 1))
  print(c:try("close"))
  print(c:try("__index"))
  print(c:try("print"), c:try("a.b"))

  -- notifications are in order
  for i = 1, 5 do c:notify("tell", i) end
  local got = {}
  for i = 1, 5 do got[i] = told:recv() end
  print(table.concat(got, " "))

  -- streams
  local n, sum = 0, 0
  for i in c:stream("range", 1, 10000) do n, sum = n + 1, sum + i end
  print(n, sum)
  for i, w in c:stream "words" do io.write(i, " ", w, " ") end
  print()
  for i in c:stream("range", 1, 1000000) do if i == 500 then break end end
  refused(function() for i in c:stream "broken" do io.write(i, " ") end end)
  refused(function() for _ in c:stream("add", 1, 2) do end end)
  refused(function() for _ in c:stream "no_such" do end end)
  -- a small window: each side waits for the other
  local small = assert(rpc.connect(l:endpoint(), { window = 10 }))
  n = 0
  for i in small:stream("range", 1, 300) do n = n + i end
  print(n)
  -- many streams and calls beside each other
  local sums = pl.each({ 1, 2, 3, 4, 5, 6, 7, 8 }, function(k)
    local sum = 0
    for i in c:stream("range", 1, 200) do sum = sum + i + c:add(i, k) end
    return sum
  end)
  print(table.concat(sums, " "))

  -- slow calls do not hold quick ones up, and a hundred of them wait together
  local order = {}
  pl.all {
    function() c:pass() order[#order + 1] = "slow" end,
    function() c:add(1, 1) order[#order + 1] = "quick" gate:close() end,
  }
  local hundred = {}
  for i = 1, 100 do hundred[i] = i end
  local back = pl.each(hundred, function(i) return c:meet(100, i) end)
  print(table.concat(order, " "), #back, back[1], back[100], here)

  -- from tasks, with the client as an argument, and over a Unix socket
  local pool = pl.pool.default()
  local tasks = {}
  for i = 1, 4 do
    tasks[i] = pool:async(function(c, i)
      local sum = 0
      for k = 1, 50 do sum = sum + c:add(i, k) end
      return sum
    end, c, i)
  end
  print(pl.await_all(tasks))
  print(c:peer_endpoint() == l:endpoint(), c:is_closed(), c:info().calls)
  print(c:close(), c:close(), c:is_closed())
  print(c:try("add", 1, 2))
  print(c:notify("add", 1, 2))
end)
l:close()

-- a server in a domain of its own, and one that is left in the middle
do
  local l = assert(net.listen("unix:rpc.sock"))
  local domain = pl.domain.spawn("server", function(l)
    local rpc = require "perilune.rpc"
    rpc.serve(l, { square = function(x) return x * x end }):await()
    return "served"
  end, l)
  local c <close> = assert(rpc.connect("unix:rpc.sock"))
  print(c:square(12))
  l:close()
  print(domain:join())
end

-- misuse
print(pcall(rpc.serve, nil, {}))
print(pcall(rpc.serve, l, nil))
print(pcall(rpc.serve, l, { 1 }))
print(pcall(rpc.serve, l, { x = 1 }))
print(pcall(rpc.serve, l, {}, { workers = 1 }))
print(pcall(rpc.serve, l, {}, { max = 0 }))
print(pcall(rpc.connect, "nowhere"))
print(pcall(rpc.connect, "localhost:1", { timout = 1 }))
print(select(3, rpc.connect("unix:nobody.sock")))
