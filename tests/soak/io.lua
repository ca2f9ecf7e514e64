-- A server and its clients for as long as one likes, with everything that goes wrong: connections that are reset, readers that are slow, streams that are half closed, bursts that use up the
-- server's descriptors, waits that are cancelled and go on, requests that are given up. What has to hold: no byte is lost, changed or delivered twice; memory stays where it was
-- after the first fifth of the time; in the end no thread and no descriptor is left.
--
--   perilune tests/soak/io.lua [SECONDS [SEED]]
--
-- The server is a process of its own with 200 descriptors.
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"
local json = require "perilune.json"
local process = require "perilune.process"
local fs = require "perilune.fs"

-- The server ---------------------------------------------------------------------------------------------------------------------

if arg[1] == "server" then
  local signal = require "perilune.signal"
  pl.scope(function(scope)
    -- echo, line by line
    local l = assert(net.listen "127.0.0.1:0")
    scope:daemon(function()
      for c in l do
        scope:daemon(function()
          local c <close> = c
          c:set { read_timeout = 20, write_timeout = 20 }
          while true do
            local line = c:read_line()
            if not line or not c:write(line, "\n") then break end
          end
        end)
      end
    end)
    local big = ("0123456789abcdef"):rep(16384)
    -- What a client gives up is its own business.
    local srv = http.server { on_error = function(text) io.stderr:write("server: ", text, "\n") end, header_timeout = 5, body_timeout = 5, write_timeout = 5 }
    srv:post("/echo", function(req) return http.json(assert(req:json())) end)
    srv:get("/big", function() return big end)
    srv:get("/stream", function()
      local left = 64
      return { body = function() left = left - 1 return left >= 0 and big:sub(1, 4096) or nil end }
    end)
    srv:get("/slow", function() pl.sleep(0.05) return "slow" end)
    srv:get("/memory", function() collectgarbage() return tostring(collectgarbage "count") end)
    local h = assert(srv:listen "127.0.0.1:0")
    print(l:endpoint(), h:endpoint())
    io.stdout:flush()
    signal.on("TERM"):recv()
  end)
  os.exit(0)
end

-- What a process uses ------------------------------------------------------------------------------------------------------------

local function usage(pid)
  local status = fs.read("/proc/" .. pid .. "/status") or ""
  return {
    kib = tonumber(status:match "VmRSS:%s*(%d+)"), threads = tonumber(status:match "Threads:%s*(%d+)"),
    descriptors = #(fs.dir("/proc/" .. pid .. "/fd") or {}),
  }
end

-- The clients --------------------------------------------------------------------------------------------------------------------

local seconds = tonumber(arg[1]) or 20
local seed = tonumber(arg[2]) or os.time()
math.randomseed(seed)
local random = math.random

local command, script = arg[-1], arg[0]
local server = assert(process.spawn { "sh", "-c", 'ulimit -n 200; exec "$0" "$1" server', command, script, stdout = "pipe" })
local echo, web = assert(server.stdout:read_line()):match "(%S+)%s+(%S+)"
local base = "http://" .. web
local me = assert(fs.read "/proc/self/stat"):match "^%d+"

local faults, counts = {}, {}
local bursts, last_burst = 0, -math.huge
local ends = pl.now() + seconds

local function count(what, n) counts[what] = (counts[what] or 0) + (n or 1) end
local function fault(...)
  faults[#faults + 1] = table.concat({ ... }, " ")
  if #faults > 20 then ends = 0 end
end

-- While descriptors are short the server may refuse whoever waits: that is no loss, as nothing was answered.
local function excused() return bursts > 0 or pl.now() - last_burst < 6 end

local function connect()
  local c, message, code = net.connect { host = "127.0.0.1", port = tonumber(echo:match ":(%d+)$"), timeout = 30 }
  if not c then
    if excused() then count "refused" else fault("connect", message, code) end
    return nil
  end
  c:set { read_timeout = 60, write_timeout = 60 }
  return c
end

-- Where requests keep their connections.
local pool = http.pool()
local number = 0
local function message()
  number = number + 1
  return number .. " " .. ("x"):rep(random(0, 200))
end

local kinds = {}

-- Lines there and back, some at once.
function kinds.lines()
  local c <close> = connect()
  if not c then return end
  for round = 1, random(20) do
    local sent = {}
    for n = 1, random(20) do sent[n] = message() end
    if not c:write(table.concat(sent, "\n"), "\n") then
      if not excused() then fault "lines: a write failed" end
      return
    end
    for n, want in ipairs(sent) do
      local got, why = c:read_line()
      if got ~= want then
        if got == nil and round == 1 and n == 1 and excused() then return count "refused" end
        return fault("lines:", tostring(got), tostring(why), "in place of", want)
      end
    end
    count("lines", #sent)
  end
end

-- A wait that is over before the line is there goes on later: nothing lost, nothing twice.
function kinds.cancelled()
  local c <close> = connect()
  if not c then return end
  for round = 1, 10 do
    local want = message()
    c:write(want:sub(1, 3)) c:flush()
    local early = pl.timeout(random() * 0.002, c.read_line, c)
    if early then return fault("cancelled: a line before its end:", early) end
    c:write(want:sub(4), "\n") c:flush()
    local got, why
    local until_ = pl.now() + 60
    repeat
      got, why = pl.timeout(random() * 0.002, c.read_line, c)
    until got or why ~= "timeout" or pl.now() > until_
    if got ~= want then
      if got == nil and round == 1 and excused() then return count "refused" end
      return fault("cancelled:", tostring(got), tostring(why), "in place of", want)
    end
    count "cancelled"
  end
end

-- A reset in the middle of everything.
function kinds.reset()
  local c = connect()
  if not c then return end
  for _ = 1, random(50) do c:write(message(), "\n") end
  if random(2) == 1 then c:flush() end
  if random(2) == 1 then c:read() end
  c:abort()
  count "resets"
end

-- All that was sent comes back after the end was said.
function kinds.half_closed()
  local c <close> = connect()
  if not c then return end
  local sent = {}
  for n = 1, random(200) do sent[n] = message() .. "\n" end
  local want = table.concat(sent)
  if not (c:write(want) and c:close_write()) then
    if not excused() then fault "half-closed: a write failed" end
    return
  end
  local got, why = c:read_all()
  if got ~= want then
    if (got == nil or got == "") and excused() then return count "refused" end
    return fault("half-closed:", got and #got or tostring(why), "bytes in place of", #want)
  end
  count "half_closed"
end

-- A reader that takes its time.
function kinds.slow()
  local res, why = http.get(base .. (random(2) == 1 and "/big" or "/stream"), { stream = true, pool = false, timeout = 60 })
  if not res then
    if excused() then count "refused" else fault("slow:", why) end
    return
  end
  local res <close> = res
  local bytes = 0
  for _ = 1, 10000 do
    local piece, why = res:read(32768)
    if not piece then
      if why then return fault("slow:", why) end
      break
    end
    bytes = bytes + #piece
    pl.sleep(random() * 0.02)
  end
  if bytes ~= 262144 then return fault("slow:", bytes, "bytes") end
  count "slow"
end

function kinds.requests()
  for _ = 1, random(30) do
    local value = { n = random(1 << 40), text = message() }
    local res, why = http.post(base .. "/echo", { json = value, timeout = 60, pool = pool })
    if not res then
      if excused() then count "refused" else fault("request:", why) end
      return
    end
    local got = res.status == 200 and json.decode(res.body) or {}
    if got.n ~= value.n or got.text ~= value.text then return fault("request:", res.status, res.body) end
    count "requests"
  end
end

-- Given up on the way.
function kinds.given_up()
  pl.timeout(random() * 0.06, http.get, base .. (random(2) == 1 and "/slow" or "/big"), { pool = pool })
  count "given_up"
end

-- A head that never ends, garbage, silence: then gone.
function kinds.rude()
  local c = net.connect(web)
  if not c then return count "refused" end
  c:write(({ "GET / HT", "\0\1\2\3\r\n\r\n", "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nxx", "" })[random(4)])
  c:flush()
  pl.sleep(random() * 0.1)
  if random(2) == 1 then c:abort() else c:close() end
  count "rude"
end

function kinds.children()
  local r = process.run { "cat", stdin = message() }
  if not r or r.code ~= 0 then return fault "a child" end
  count "children"
end

-- More connections than the server has descriptors.
local function burst()
  bursts = bursts + 1
  local all = {}
  for n = 1, 250 do all[n] = net.connect(echo) end
  pl.sleep(0.5 + random())
  for _, c in ipairs(all) do if random(2) == 1 then c:abort() else c:close() end end
  bursts, last_burst = bursts - 1, pl.now()
  count "bursts"
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

local function settle(what, pid, before)
  -- Helper threads and idle workers end after two seconds, connections after what a server waits for.
  local now
  local patience = pl.now() + 40
  repeat
    pl.sleep(0.5)
    collectgarbage()
    now = usage(pid)
  until now.threads <= before.threads and now.descriptors <= before.descriptors or pl.now() > patience
  if now.threads > before.threads then fault(what, "has", now.threads - before.threads, "threads too many") end
  if now.descriptors > before.descriptors then fault(what, "has", now.descriptors - before.descriptors, "descriptors too many") end
  return now
end

-- So many clients until that time.
local function run(until_, with_bursts)
  pl.scope(function(scope)
    for _ = 1, 24 do
      scope:spawn(function()
        while pl.now() < until_ and pl.now() < ends do kinds[names[random(#names)]]() end
      end)
    end
    if with_bursts then
      scope:spawn(function()
        while pl.now() < until_ - 2 and pl.now() < ends do
          pl.sleep(2 + random() * 3)
          burst()
        end
      end)
    end
  end)
  pool:close()
  pool = http.pool()
end

local begun = pl.now()
-- The first fifth: what is made once is there then.
run(begun + seconds / 5, true)
local mine, its = { threads = math.huge, descriptors = math.huge }, { threads = math.huge, descriptors = math.huge }
settle("the client", me, mine)
pl.sleep(3)
mine, its = usage(me), usage(server.pid)
ends = ends + 4
run(begun + seconds + 4, true)
local mine_after, its_after = settle("the client", me, mine), settle("the server", server.pid, its)
for _, pair in ipairs { { "client", mine, mine_after }, { "server", its, its_after } } do
  local what, before, after = table.unpack(pair)
  print(("%s: %d KiB, then %d; threads %d, then %d; descriptors %d, then %d"):format(what, before.kib, after.kib, before.threads, after.threads, before.descriptors, after.descriptors))
  if after.kib > before.kib * 1.25 + 8192 then fault("the", what, "has grown from", before.kib, "to", after.kib, "KiB") end
end
local list = {}
for name in pairs(counts) do list[#list + 1] = name end
table.sort(list)
for n, name in ipairs(list) do list[n] = name .. " " .. counts[name] end
print("seed " .. seed .. ": " .. table.concat(list, ", "))
server:kill "TERM"
local ended = server:wait()
if not ended then fault "the server has not ended" end
for _, text in ipairs(faults) do print("FAULT: " .. text) end
print(#faults == 0 and "nothing lost, nothing left" or #faults .. " faults")
os.exit(#faults == 0)
