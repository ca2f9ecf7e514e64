-- Remote calls when something is wrong: malformed frames of every kind, peers that die in mid-call, cancelling, times that are over.
-- stress: no
local net, pl, rpc = require "perilune.net", require "perilune", require "perilune.rpc"

local GREETING = "PLRPC\r\n\1"
local function frame(kind, body) return string.pack("<s4", string.char(kind) .. (body or "")) end

-- Frames that a server does not take: the connection ends, the server goes on.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local notified = 0
  rpc.serve(l, { add = function(a, b) return a + b end, note = function() notified = notified + 1 end })
  local good = assert(rpc.connect(l:endpoint()))
  -- what comes back after the greeting, until the connection ends
  local function try(bytes, greeting)
    local c <close> = assert(net.connect(l:endpoint()))
    c:set { read_timeout = 5 }
    c:write(greeting or GREETING, bytes)
    c:flush()
    local answer, message, code = c:read_all(1 << 20)
    if not answer then return code end
    return (answer:sub(#GREETING + 1):gsub("[^%g ]", "."))
  end
  local call = function(id, rest) return frame(1, string.char(id, 0) .. rest) end
  local cases = {
    { "not the greeting", "", "GET / HTTP/1.1\r\n\r\n" },
    { "another version", "", "PLRPC\r\n\2" },
    { "text mode", "", "PLRPC\n\1\0" },
    { "an empty frame", "\0\0\0\0" },
    { "17 MiB", string.pack("<I4", 17 << 20) },
    { "4 GiB", "\255\255\255\255" },
    { "kind 0", frame(0) },
    { "kind 9", frame(9) },
    { "kind 255", frame(255, "xxxx") },
    { "a result from a client", frame(6, "\1\0") },
    { "an error from a client", frame(7, "\1\0\128\128") },
    { "an item from a client", frame(8, "\1\0") },
    { "a call without an id", frame(1) },
    { "a call without a time", frame(1, "\1") },
    { "a call without a name", frame(1, "\1\0") },
    { "a name that is a number", call(1, "\5\0") },
    { "a name that is cut off", call(1, "\133ad") },
    { "no arguments", call(1, "\131add") },
    { "too few arguments", call(1, "\131add\2\1") },
    { "too many arguments", call(1, "\131add\1\1\1") },
    { "a count of arguments without end", call(1, "\131add\255\255\255\255\255\255\255\255\255\1") },
    { "a number without end", frame(1, ("\255"):rep(20)) },
    { "a function as an argument", call(1, "\131add\1\xa9") },
    { "an unknown kind of value", call(1, "\131add\1\xff") },
    { "a list that is longer than the frame", call(1, "\131add\1\xa6\255\255\3") },
    { "nil in a list", call(1, "\131add\1\xa6\1\xa0") },
    { "a name twice", call(1, "\131add\1\xa7\2\129a\1\129a\1") },
    { "NaN as a key", call(1, "\131add\1\xa8\1\xa4\0\0\0\0\0\0\xf8\x7f\1") },
    { "101 tables deep", call(1, "\131add\1" .. ("\xa6\1"):rep(101) .. "\1") },
    { "an id that is in use", call(1, "\131add\2\1\1") .. call(1, "\131add\2\1\1") },
    { "a cancel with something behind", frame(4, "\1\1") },
    { "a credit without bytes", frame(5, "\1") },
  }
  for _, case in ipairs(cases) do
    local answer = try(case[2], case[3])
    -- one of the same id may have been answered before the second came
    print(case[1], case[1]:find "in use" and "" or answer)
  end
  print("the server goes on", good:add(2, 3))

  -- frames that are fine, in pieces of a byte
  local c = assert(net.connect(l:endpoint()))
  local bytes = GREETING .. call(7, "\131add\2\2\3") .. frame(4, "\99") .. frame(5, "\99\1") .. frame(3, "\132note\0")
  for i = 1, #bytes do
    c:write(bytes:sub(i, i))
    c:flush()
  end
  print((c:read_exact(16):gsub("[^%g ]", function(b) return ("<%d>"):format(b:byte()) end)))
  c:close()
  while notified == 0 do pl.sleep(0.001) end
  print("notified", notified)
end)

-- Who notifies and leaves is heard, however long the functions take; a call that nobody waits for is cancelled.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local heard, called, cancelled = {}, 0, 0
  rpc.serve(l, {
    note = function(n)
      if n % 3 == 0 then pl.sleep(0.02) end
      if n == 5 then error "lost" end
      heard[#heard + 1] = n
    end,
    hang = function()
      local over <close> = setmetatable({}, { __close = function() cancelled = cancelled + 1 end })
      called = called + 1
      pl.sleep(100)
    end,
  })
  local c = assert(net.connect(l:endpoint()))
  c:write(GREETING, frame(1, "\1\0\132hang\0"))
  c:read_exact(8)
  while called == 0 do pl.sleep(0.001) end
  for n = 1, 100 do c:write(frame(3, "\132note\1" .. string.char(n))) end
  c:close()
  while #heard < 99 or cancelled < 1 do pl.sleep(0.001) end
  table.sort(heard)
  print("heard", #heard, heard[1], heard[99], "cancelled", cancelled)
end)

-- What a client does not take: every caller gets an error.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local function serve_bytes(bytes, greeting)
    s:daemon(function()
      local c <close> = l:accept()
      c:write(greeting or GREETING)
      c:read_exact(8)
      for _ = 1, 3 do -- all three have asked, if the greeting is right
        local size = c:read_exact(4)
        if size then c:read_exact((string.unpack("<I4", size))) end
      end
      c:write(bytes)
      c:flush()
      c:read()
      c:read()
    end)
    local client = assert(rpc.connect(l:endpoint(), { timeout = 5 }))
    local results = {}
    for i = 1, 3 do results[i] = s:spawn(function() return select(2, client:try("f", i)) end) end
    local texts = {}
    for i = 1, 3 do texts[i] = tostring((results[i]:await())) end
    client:close()
    return table.concat(texts, "; ")
  end
  for _, case in ipairs {
    { "another protocol", "", "HTTP/1.1 400\r\n\r\n" },
    { "another version", "", "PLRPC\r\n\9" },
    { "an unknown kind", frame(77) },
    { "a call from a server", frame(1, "\1\0\129f\0") },
    { "an answer to nothing", frame(6, "\99\0") },
    { "an item of no stream", frame(8, "\1\0") },
    { "a second answer", frame(6, "\1\0") .. frame(6, "\2\0") .. frame(6, "\1\0") },
    { "too long", "\1\0\0\1" },
    { "an unknown code", frame(7, "\1\77\128\128") },
    { "an error without a traceback", frame(7, "\1\0\128") },
  } do
    print(case[1], serve_bytes(case[2], case[3]))
  end
end)

-- A peer that dies in mid-call, in every manner; nobody hangs.
local function dying(how)
  return pl.scope(function(s)
    local l = assert(net.listen("127.0.0.1:0"))
    local client = nil
    s:daemon(function()
      local c = l:accept()
      c:write(GREETING)
      c:read_exact(8 + 20)
      pl.sleep(0.01)
      how(c)
    end)
    client = assert(rpc.connect(l:endpoint()))
    local fibers, codes = {}, {}
    for i = 1, 12 do fibers[i] = s:spawn(function() return select(3, client:try("f", i)) end) end
    for i = 1, 12 do codes[fibers[i]:await()] = true end
    local _, _, later = client:try("f")
    local streamed = select(2, pcall(function() for _ in client:stream("f") do end end))
    return next(codes), next(codes, next(codes)), later, streamed
  end)
end
print("reset", dying(function(c) c:abort() end))
-- all that was asked is taken first: what is unread when a connection is closed is a reset
local function drain(c)
  c:set { read_timeout = 0.05 }
  repeat until not c:read()
end
print("closed", dying(function(c) drain(c) c:close() end))
print("half a frame", dying(function(c) drain(c) c:write("\100\0\0\0\6") c:close() end))

-- The client dies: what runs for it is cancelled, and only that.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local ended, running = 0, 0
  rpc.serve(l, {
    hang = function()
      local over <close> = setmetatable({}, { __close = function() ended = ended + 1 end })
      running = running + 1
      pl.sleep(100)
    end,
    ping = function() return "pong" end,
  })
  local stays = assert(rpc.connect(l:endpoint()))
  local waits = s:spawn(function() return stays:try "hang" end)
  local dies = assert(rpc.connect(l:endpoint()))
  for _ = 1, 5 do s:daemon(function() pcall(dies.hang, dies) end) end
  while running < 6 do pl.sleep(0.001) end
  dies:close()
  while ended < 5 do pl.sleep(0.001) end
  pl.sleep(0.01)
  print("cancelled", ended, stays:ping())
  -- cancelling one call cancels its function, and no other
  waits:cancel()
  while ended < 6 do pl.sleep(0.001) end
  print("cancelled", ended, stays:ping(), stays:info().calls)
end)

-- Times: of the connection, of the program; the function over there ends, too.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local begun, ended = 0, 0
  local function guard()
    begun = begun + 1
    return setmetatable({}, { __close = function() ended = ended + 1 end })
  end
  rpc.serve(l, {
    hang = function() local over <close> = guard() pl.sleep(100) end,
    fast = function() return "fast" end,
  })
  local c = assert(rpc.connect(l:endpoint(), { timeout = 0.02 }))
  print(c:try "hang")
  print(pcall(c.hang, c))
  -- the connection goes on; a busy machine may need more than the time
  local ok, text
  repeat ok, text = c:try "fast" until ok
  print(ok, text)
  local patient = assert(rpc.connect(l:endpoint()))
  print(pl.timeout(0.02, function() return patient:hang() end))
  -- on a busy machine the time may be over before the function begins
  while ended < begun do pl.sleep(0.001) end
  print(ended == begun, patient:fast(), patient:info().calls)
  -- the server itself keeps the time: a call that says 10 ms, from a client that never gives up
  local raw <close> = assert(net.connect(l:endpoint()))
  raw:write(GREETING, frame(1, "\1\x90\x4e\132hang\0"))
  raw:read_exact(8)
  print((raw:read_exact(25):gsub("[^%g ]", ".")), ended == begun)
  -- many at once, most of which are cancelled at some moment
  local done = 0
  for _ = 1, 200 do
    s:spawn(function()
      for i = 1, 5 do
        pl.timeout(math.random() * 0.002, function() return patient:fast() end)
        if patient:fast() == "fast" then done = done + 1 end
      end
    end)
  end
  while done < 1000 do pl.sleep(0.001) end
  print(done, patient:info().calls)
end)

-- More requests than the server takes at once, and more bytes than a client reads.
pl.scope(function(s)
  local l = assert(net.listen("127.0.0.1:0"))
  local most, now = 0, 0
  rpc.serve(l, {
    slow = function()
      now = now + 1
      most = math.max(most, now)
      pl.sleep(0.001)
      now = now - 1
    end,
    big = function(n) return ("x"):rep(n) end,
  }, { calls = 10 })
  local c = assert(rpc.connect(l:endpoint()))
  pl.each((function() local t = {} for i = 1, 500 do t[i] = i end return t end)(), function() c:slow() end)
  print("at once", most)
  local total = 0
  pl.each({ 1, 2, 3, 4, 5, 6, 7, 8 }, function()
    local n = #c:big(3000000)
    total = total + n
  end)
  print(total)
  print(c:try("big", 17 << 20))
  print(pcall(c.big, c, ("x"):rep(17 << 20)))
  print(#c:big(16 << 10))
end)
print "done"
