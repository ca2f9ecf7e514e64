-- Follows a log file and sends its lines to a collector. `main.lua FILE HOST:PORT` ships, `main.lua --collect HOST:PORT` collects and prints; without arguments it shows
-- both, with a log of its own that is rotated, a collector that goes away, and a SIGTERM.
local fs, net, pl, signal = require "perilune.fs", require "perilune.net", require "perilune", require "perilune.signal"

local POLL <const> = 0.05 -- seconds between two looks at the file
local MOST <const> = 256 << 10 -- bytes of a batch
local PATIENCE <const> = 5 -- seconds for the collector's answer

local function fail(message)
  io.stderr:write("log_shipper: ", tostring(message), "\n")
  os.exit(1)
end

-- The file. `next()` returns the lines that have come and `done()` is called when they have arrived: where to go on is kept in FILE.sent.
local function follow(path)
  local kept = path .. ".sent"
  local inode, at = (fs.read(kept) or ""):match "^(%d+) (%d+)$"
  inode, at = math.tointeger(tonumber(inode)), math.tointeger(tonumber(at)) or 0
  local file, size

  local function open(stat)
    -- The name belongs to another file now, or to one that was emptied.
    if stat.inode ~= inode or stat.size < at then at = 0 end
    if file then file:close() end
    file, inode = io.open(path, "rb"), stat.inode
  end

  local function read()
    if not file then return end
    file:seek("set", at)
    local text = file:read(MOST)
    local lines = text and (text:match "^.*\n" or #text == MOST and text)
    size = lines and #lines
    return lines or nil
  end

  return {
    next = function()
      -- An old file is read to its end before the new one of its name.
      local stat = fs.stat(path)
      if stat and (not file or stat.inode == inode and stat.size < at) then open(stat) end
      local lines = read()
      if not lines and stat and stat.inode ~= inode then
        open(stat)
        lines = read()
      end
      return lines
    end,
    done = function()
      at = at + size
      assert(fs.write(kept, ("%d %d"):format(inode, at), { atomic = true }))
    end,
  }
end

-- Sends batches, each with its length in front, until a signal comes; then what is in the file already.
local function ship(path, address)
  local log, stop, stopping = follow(path), signal.on("TERM", "INT"), false
  local connection

  local function rest(seconds)
    if pl.select { stop, timeout = seconds } then
      stopping = true
      stop:close() -- a second signal ends the program
    end
  end

  local function send(batch)
    if not connection then
      connection = net.connect(address)
      if not connection then return false end
      connection:set { read_timeout = PATIENCE }
    end
    connection:write(#batch, "\n", batch)
    if connection:read_line() == "ok" then return true end
    connection:abort()
    connection = nil
  end

  while true do
    local batch = log.next()
    if not batch then
      if stopping then break end
      rest(POLL)
    elseif send(batch) then
      log.done()
    elseif stopping then
      break -- the next run sends it
    else
      rest(POLL)
    end
  end
  if connection then connection:close() end
end

-- Calls `f` with each batch; answers when it has been dealt with.
local function collect(connection, f)
  local connection <close> = connection
  for length in connection:lines() do
    local n = math.tointeger(tonumber(length))
    local batch = n and n >= 0 and n <= MOST and connection:read_exact(n)
    if not batch then return end
    f(batch)
    connection:write "ok\n"
  end
end

local function listen(address)
  local ok, listener, message = pcall(net.listen, address)
  if ok and listener then return listener end
  fail(ok and message or listener)
end

if arg[1] == "--collect" and arg[2] then
  local listener = listen(arg[2])
  pl.scope(function(s)
    for connection in listener do
      s:daemon(collect, connection, function(batch)
        io.write(batch)
        io.flush()
      end)
    end
  end)
elseif arg[1] then
  local there, message = fs.stat(arg[1])
  if not there then fail(message) end
  if not arg[2] then fail "usage: main.lua FILE HOST:PORT" end
  local ok, message = pcall(ship, arg[1], arg[2])
  if not ok then fail(message) end
else
  local folder = assert(fs.temporary())
  assert(fs.remove(folder))
  assert(fs.mkdir(folder))
  local path = folder .. "/service.log"
  local function log(text) assert(fs.write(path, text .. "\n", { append = true })) end
  local function settled()
    return fs.stat(path).size == tonumber((fs.read(path .. ".sent") or ""):match " (%d+)")
  end

  pl.scope(function(s)
    local arrived = pl.channel.new(100)
    local address, clients = "unix:" .. folder .. "/collector.sock", {}
    local listener = assert(net.listen(address))
    local function serve()
      for connection in listener do
        clients[#clients + 1] = connection
        s:daemon(collect, connection, function(batch)
          for line in batch:gmatch "[^\n]+" do arrived:send(line) end
        end)
      end
    end
    s:daemon(serve)

    log "one"
    log "two"
    local shipper = s:spawn(ship, path, address)
    print(arrived:recv(), arrived:recv())

    fs.rename(path, path .. ".1")
    log "three, in a new file"
    print(arrived:recv())

    repeat pl.sleep(0.01) until settled()
    listener:close()
    for _, connection in ipairs(clients) do connection:abort() end
    log "four, while nobody collects"
    pl.sleep(3 * POLL)
    listener = assert(net.listen(address))
    s:daemon(serve)
    print(arrived:recv())

    log "five, before SIGTERM"
    os.execute "kill -TERM $PPID"
    shipper:await()
    print(arrived:recv())
    print("sent " .. fs.read(path .. ".sent"):match " (%d+)" .. " of " .. fs.stat(path).size .. " bytes")
  end)
  assert(fs.remove(folder, { recursive = true }))
end
