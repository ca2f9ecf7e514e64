-- What networks and peers do to sessions: bytes one at a time, streams cut off anywhere, changed bytes, silence, resets; and what programs do: timeouts, cancelling, closing.
local net = require "perilune.net"
local pl = require "perilune"

local server = {cert = "server.pem", key = "server.key"}
local function listen(tls)
  local l = assert(net.listen("127.0.0.1:0", {tls = tls}))
  return l, select(2, l:address())
end

-- A relay to `port` that hands every piece of bytes to `way(direction, bytes, output)`.
local function relay(port, way)
  local l, own = listen()
  pl.after(0, function()
    for from_client in l do
      local from_server = assert(net.connect{host = "127.0.0.1", port = port})
      local function pass(direction, from, to)
        while true do
          local bytes = from:read()
          if not bytes then break end
          if way(direction, bytes, to, from) == "stop" then return end
        end
        to:close_write()
      end
      pl.after(0, function() pass("to server", from_client, from_server) end)
      pl.after(0, function() pass("to client", from_server, from_client) end)
    end
  end)
  return own, l
end

local l, port = listen(server)
local function serve(handler) pl.after(0, function() local c = l:accept() handler(c) end) end

-- bytes one at a time, in both directions
do
  local through, relay = relay(port, function(_, bytes, to)
    for i = 1, #bytes do
      if not (to:write(bytes:sub(i, i)) and to:flush()) then return "stop" end
      pl.yield()
    end
  end)
  serve(function(c)
    for line in c:lines() do c:write(line:reverse(), "\n") end
    c:close()
  end)
  local c = assert(net.connect{host = "localhost", port = through, tls = {ca = "ca.pem"}})
  for _, word in ipairs {"one", "three hundred", ("long"):rep(500)} do
    c:write(word, "\n")
    assert(c:read_line() == word:reverse())
  end
  c:close_write()
  print("byte by byte", c:read())
  c:close()
  relay:close()
end

-- cut off after n bytes to the client, for many n: never an end of the stream, nothing invented
do
  local counted = 0
  local limit = math.huge
  local through, relay = relay(port, function(direction, bytes, to, from)
    if direction == "to server" then to:write(bytes) to:flush() return end
    if counted + #bytes > limit then bytes = bytes:sub(1, limit - counted) end
    counted = counted + #bytes
    to:write(bytes)
    to:flush()
    if counted >= limit then
      to:close()
      from:abort()
      return "stop"
    end
  end)
  local text = ("All of it. "):rep(50)
  local function once()
    counted = 0
    serve(function(c) c:write(text) c:close() end)
    local c, message, code = net.connect{host = "localhost", port = through, tls = {ca = "ca.pem"}}
    if not c then return "connect", code, message end
    local got = {}
    while true do
      local bytes, message, code = c:read()
      if not bytes then
        c:close()
        got = table.concat(got)
        assert(text:sub(1, #got) == got)
        return got == text and "all" or "part", code, message
      end
      got[#got + 1] = bytes
    end
  end
  print(once())
  local whole = counted
  local outcomes = {}
  for n = 1, whole - 30, 37 do
    limit = n
    local where, code = once()
    local key = where .. " " .. code
    outcomes[key] = (outcomes[key] or 0) + 1
  end
  -- The relay's end may be a reset for the client, which is a failure too.
  local seen = {}
  for key in pairs(outcomes) do if not key:find "reset" then seen[#seen + 1] = key end end
  table.sort(seen)
  print(table.concat(seen, ", "))
  limit = whole - 1       -- without the last byte of close_notify
  print(select(2, once()))
  limit = 100
  local _, code, message = once()
  print(code == "tls" or code == "reset", code == "tls" and message or "localhost has ended the connection during the TLS handshake: does it speak TLS on this port?")
  relay:close()
end

-- a peer that closes its socket without a word in TLS
do
  local told = pl.channel.new()
  serve(function(c) print(c:read_line()) told:send(table.pack(c:read_line())) end)
  local plain, relay_listener = relay(port, function(direction, bytes, to, from)
    to:write(bytes)
    to:flush()
    if direction == "to server" and to:info().sent > 700 then to:close_write() return "stop" end
  end)
  local c = assert(net.connect{host = "localhost", port = plain, tls = {ca = "ca.pem"}})
  c:write("a line\n", ("x"):rep(700))
  c:flush()
  print(table.unpack(told:recv()))
  relay_listener:close()
end

-- a changed byte
do
  local change = false
  local told = pl.channel.new()
  local through, relay = relay(port, function(direction, bytes, to)
    if change and direction == "to server" then
      bytes = bytes:sub(1, 20) .. string.char(bytes:byte(21) ~ 1) .. bytes:sub(22)
    end
    to:write(bytes)
    to:flush()
  end)
  serve(function(c) print(c:read_line()) told:send(table.pack(c:read_line())) end)
  local c = assert(net.connect{host = "localhost", port = through, tls = {ca = "ca.pem"}})
  c:write("untouched\n")
  c:flush()
  pl.sleep(0.05)
  change = true
  c:write("pay 10\n")
  c:flush()
  print(table.unpack(told:recv()))
  print(c:read())
  print(c:write("more"))
  relay:close()
end

-- silence: the time for connecting is over, also in the handshake; a server's client that says nothing
do
  local silent, silent_port = listen()
  local c
  pl.after(0, function() c = silent:accept() c:read_all() end)
  print(net.connect{host = "127.0.0.1", port = silent_port, timeout = 0.05, tls = {ca = "ca.pem"}})
  print(pl.timeout(0.05, net.connect, {host = "127.0.0.1", port = silent_port, tls = {ca = "ca.pem"}}))
  silent:close()
  local told = pl.channel.new()
  serve(function(c)
    c:set{read_timeout = 0.05, write_timeout = 0.05}
    told:send(table.pack(c:read_line()))
    told:send(table.pack(c:write("x")))
    told:send(table.pack(c:close()))
  end)
  local c = net.connect{host = "127.0.0.1", port = port}
  print(table.unpack(told:recv()))
  print(table.unpack(told:recv()))
  print(table.unpack(told:recv()))
  c:close()
end

-- timeouts and cancelling anywhere: nothing is lost, nothing twice
do
  local pause = 0
  local through, relay = relay(port, function(_, bytes, to)
    for i = 1, #bytes do
      to:write(bytes:sub(i, i))
      to:flush()
      if i % 16 == 0 then pl.sleep(pause) end
    end
  end)
  serve(function(c)
    c:set{read_timeout = 0.0005}
    local got, timeouts = {}, 0
    while true do
      local line, message, code
      if timeouts % 2 == 0 then
        line, message, code = c:read_line()
      else
        line, message = pl.timeout(0.0005, function() return (c:read_line()) end)
        code = message
      end
      if line then got[#got + 1] = line
      elseif code == "timeout" then timeouts = timeouts + 1
      elseif code == nil and not c:is_closed() then timeouts = timeouts + 1
      else print("ended", code) break end
      if #got == 20 then break end
    end
    local right = true
    for i = 1, 20 do right = right and got[i] == "message " .. i end
    c:set{read_timeout = false}
    print("got", #got, right, timeouts > 5, c:read())
    c:write("done\n")
    c:close()
  end)
  pause = 0.001
  local c = assert(net.connect{host = "localhost", port = through, tls = {ca = "ca.pem"}})
  for i = 1, 20 do c:write("message ", i, "\n") c:flush() end
  c:close_write()
  print(c:read_all())
  relay:close()
end

-- closed under those who wait for a handshake
do
  local told = pl.channel.new()
  serve(function(c)
    for _ = 1, 2 do pl.after(0, function() told:send(table.pack(c:read())) end) end
    pl.after(0, function() told:send(table.pack(c:write("x"))) end)
    pl.sleep(0.02)
    c:close()
  end)
  local c = net.connect{host = "127.0.0.1", port = port}
  for _ = 1, 3 do print(table.unpack(told:recv())) end
  c:close()
end

-- of those who wait for a handshake, the one that is woken is cancelled: another one goes on
do
  local told = pl.channel.new()
  serve(function(c)
    local one = pl.after(0, function() c:read(1) end)
    pl.after(0, function() told:send(table.pack(c:write("it goes on\n"))) c:flush() end)
    pl.sleep(0.02)
    one:cancel()
  end)
  pl.sleep(0.04)
  local c = assert(net.connect{host = "localhost", port = port, tls = {ca = "ca.pem"}})
  print(c:read_line())
  told:recv()
  c:close()
end

-- a reset
do
  local told = pl.channel.new()
  serve(function(c) c:read_line() told:send(table.pack(c:read_line())) end)
  local c = assert(net.connect{host = "localhost", port = port, tls = {ca = "ca.pem"}})
  c:write("x\n")
  c:flush()
  pl.sleep(0.02)
  c:abort()
  print(select(3, table.unpack(told:recv())))
end
l:close()
