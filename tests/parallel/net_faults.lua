-- What peers and programs do to connections: resets, closing under a reader, cancelling, clients that never read, many at once.
-- stress: no
local net = require "perilune.net"
local pl = require "perilune"
local pool = pl.pool.default()

local function pair()
  local l = assert(net.listen("127.0.0.1:0"))
  local a = assert(net.connect(l:endpoint()))
  local b = assert(l:accept())
  l:close()
  return a, b
end

-- a reset while reading, and then for writing
do
  local a, b = pair()
  pl.after(0.005, function() a:abort() end)
  print(b:read())
  print(b:read())
  local failure
  for _ = 1, 100 do
    local ok, message, code = b:write("x")
    if not ok then failure = code break end
    pl.sleep(0.0005)
  end
  print(failure)
  print(b:close())
end

-- a reset while a write waits for room
do
  local a, b = pair()
  a:set{high_water = 1000}
  pl.after(0.02, function() b:abort() end)
  local ok, message, code
  repeat ok, message, code = a:write(("x"):rep(100000)) until not ok
  print(code)
  a:close()
end

-- a client that never reads: the writer waits, its memory is bounded, its time is over
do
  local a, b = pair()
  a:set{high_water = 10000, write_timeout = 0.02}
  local written, ok, message, code = 0, nil, nil, nil
  repeat
    ok, message, code = a:write(("x"):rep(5000))
    if ok then written = written + 5000 end
  until not ok
  print(code, a:info().unsent <= 15000)
  -- none of the bytes of the write that failed, all of the others
  a:set{write_timeout = false}
  pl.after(0, function() a:close() end)
  print(#b:read_all() == written)
end

-- closed by another fiber, and by another domain, while one reads
do
  local a, b = pair()
  pl.after(0.005, function() b:close() end)
  print(b:read_line())
  print(a:read())
  local a, b = pair()
  local d = pl.domain.spawn(function(c) return c:read() end, b)
  pl.sleep(0.02)
  b:close()
  print(d:join())
end

-- a listener closed under those who accept
do
  local l = net.listen("127.0.0.1:0")
  local ended = pl.channel.new()
  for _ = 1, 3 do pl.after(0, function() ended:send(l:accept()) end) end
  pl.sleep(0.01)
  l:close()
  for _ = 1, 3 do print(ended:recv()) end
end

-- connections go to other domains, and back
do
  local l = net.listen("127.0.0.1:0")
  local handed = pl.channel.new()
  local d = pl.domain.spawn(function(handed)
    for c in handed do
      local name = c:read_line()
      c:write("hello ", name, "\n")
      c:close()
    end
    return "done"
  end, handed)
  pl.after(0, function() for c in l do handed:send(c) end end)
  for i = 1, 5 do
    local c <close> = net.connect(l:endpoint())
    c:write("client ", i, "\n")
    print(c:read_line(), (c:read()))
  end
  l:close()
  handed:close()
  print(d:join())
end

-- several domains accept from one listener
do
  local l = net.listen("127.0.0.1:0")
  local counts = pl.channel.new()
  for _ = 1, 3 do
    pl.domain.spawn(function(l, counts)
      local n = 0
      for c in l do
        c:write("x") c:close() n = n + 1
      end
      counts:send(n)
    end, l, counts)
  end
  for _ = 1, 60 do
    local c = assert(net.connect(l:endpoint()))
    assert(c:read_all() == "x")
    c:close()
  end
  print(l:info().accepted)
  l:close()
  print(counts:recv() + counts:recv() + counts:recv())
end

-- a task that is cancelled while it waits, at each byte of a message: none is lost, none comes twice
do
  local a, b = pair()
  local message = "0123456789"
  local got = {}
  for at = 0, #message do
    a:write(message:sub(1, at)) a:flush()
    local task = pool:async(function(b, n) return b:read_exact(n) end, b, #message)
    pl.sleep(0.002)
    task:cancel()
    local ok, what = pcall(task.await, task)
    if at == #message then
      got[#got + 1] = ok and what or b:read_exact(#message)
    else
      if ok then print("too early", at, what) end
      a:write(message:sub(at + 1)) a:flush()
      got[#got + 1] = b:read_exact(#message)
    end
  end
  local same = 0
  for _, m in ipairs(got) do if m == message then same = same + 1 end end
  print(same, #got)
  b:set{read_timeout = 0.005}
  print(b:read())
end

-- the same with a timeout, read byte by byte
do
  local a, b = pair()
  b:set{read_timeout = 0.0005}
  local text = ("the quick brown fox\n"):rep(5)
  pl.after(0, function()
    for ch in text:gmatch "." do a:write(ch) a:flush() if math.random(3) == 1 then pl.sleep(0.001) end end
    a:close()
  end)
  local got, timeouts = {}, 0
  while true do
    local s, _, code = b:read(1)
    if s then got[#got + 1] = s elseif code == "timeout" then timeouts = timeouts + 1 else break end
  end
  print(table.concat(got) == text)
end

-- cancelled accepts and connects leave nothing behind
do
  local l = net.listen("127.0.0.1:0")
  for _ = 1, 20 do
    local task = pool:async(function(l) return l:accept() end, l)
    pl.sleep(0.0005)
    task:cancel()
    pcall(task.await, task)
  end
  local c = net.connect(l:endpoint())
  print((l:accept()) ~= nil)
  l:close()
end

-- numbers of descriptors are used again: no event of an old one reaches a new one
do
  local l = net.listen("127.0.0.1:0")
  for i = 1, 200 do
    local c = net.connect(l:endpoint())
    local s = l:accept()
    if i % 2 == 0 then c:write("x") c:close() else c:abort() end
    s:close()
  end
  local c = net.connect(l:endpoint())
  local s = l:accept()
  s:set{read_timeout = 0.01}
  print(s:read())
  c:write("alive") c:close()
  s:set{read_timeout = false}
  print(s:read_all())
  l:close()
end

-- a thousand connections, in two domains
do
  local l = net.listen("127.0.0.1:0")
  local d = pl.domain.spawn(function(l)
    local served = 0
    for c in l do
      pl.after(0, function()
        while true do
          local line = c:read_line()
          if not line then break end
          c:write(line, "\n")
          served = served + 1
        end
        c:close()
      end)
    end
    return served
  end, l)
  local clients = {}
  for i = 1, 1000 do clients[i] = assert(net.connect(l:endpoint())) end
  for round = 1, 3 do
    for i, c in ipairs(clients) do c:write(i, " ", round, "\n") end
    for i, c in ipairs(clients) do
      local line = c:read_line()
      if line ~= i .. " " .. round then print("wrong", i, round, line) end
    end
  end
  for _, c in ipairs(clients) do c:close() end
  l:close()
  print(d:join() <= 3000)
end

-- waiting for a peer is no deadlock; waiting for nothing is one, also beside an open connection
do
  local a, b = pair()
  pl.after(0.05, function() a:write("in time") end)
  print(b:read())
  local c = pl.channel.new()
  print((select(2, pcall(c.recv, c)):gsub("\n.*", "")))
end

-- a fiber that always finds something does not starve its neighbours
do
  local a, b = pair()
  local turns, stop = 0, false
  pl.after(0, function() while not stop do turns = turns + 1 pl.sleep(0) end end)
  pl.after(0, function()
    a:set{high_water = 1 << 20}
    for _ = 1, 2000 do a:write("0123456789") a:flush() b:read_exact(10) end
    stop = true
  end)
  repeat pl.sleep(0.01) until stop
  print(turns > 20)
end
