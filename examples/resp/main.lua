-- A server for the protocol of Redis, with strings, numbers, lists and times to live. `main.lua ADDRESS` serves (`redis-cli -p PORT`,
-- `redis-benchmark -p PORT -t ping,set,get,incr,lpush,rpush,lpop,rpop,lrange -P 16` drive it); without arguments it serves a client of its own and prints the answers.
local net, pl = require "perilune.net", require "perilune"

local data, expires = {}, {}

-- Replies are strings of the protocol.
local OK <const>, NIL <const>, EMPTY <const> = "+OK\r\n", "$-1\r\n", "*0\r\n"
local function bulk(text) return ("$%d\r\n%s\r\n"):format(#text, text) end
local function int(n) return (":%d\r\n"):format(n) end
local function fault(text) return "-" .. text .. "\r\n" end
local WRONG_TYPE <const> = fault "WRONGTYPE Operation against a key holding the wrong kind of value"
local NOT_INTEGER <const> = fault "ERR value is not an integer or out of range"

-- What a key has, unless its time is over.
local function get(key)
  local at = expires[key]
  if at and at <= pl.now() then data[key], expires[key] = nil, nil end
  return data[key]
end

local function integer(text) return text:find "^-?%d+$" and math.tointeger(tonumber(text)) end

-- A list is a table with the places of its first and last element.
local function list(key, make)
  local value = get(key)
  if not value and make then
    value = { first = 1, last = 0 }
    data[key] = value
  end
  if value and type(value) ~= "table" then return nil, WRONG_TYPE end
  return value
end

local commands = {}

function commands.PING(text) return text and bulk(text) or "+PONG\r\n" end
function commands.ECHO(text) return bulk(text) end

function commands.SET(key, value, option, span)
  data[key], expires[key] = value, nil
  if option then
    local unit = ({ EX = 1, PX = 1000 })[option:upper()]
    local n = span and integer(span)
    if not unit or not n then return fault "ERR syntax error" end
    expires[key] = pl.now() + n / unit
  end
  return OK
end

function commands.GET(key)
  local value = get(key)
  if not value then return NIL end
  return type(value) == "string" and bulk(value) or WRONG_TYPE
end

function commands.MSET(...)
  for i = 1, select("#", ...), 2 do
    local key, value = select(i, ...)
    if not value then return fault "ERR wrong number of arguments for 'mset' command" end
    data[key], expires[key] = value, nil
  end
  return OK
end

function commands.DEL(...)
  local n = 0
  for _, key in ipairs { ... } do
    if get(key) then n = n + 1 end
    data[key], expires[key] = nil, nil
  end
  return int(n)
end

function commands.EXISTS(...)
  local n = 0
  for _, key in ipairs { ... } do n = n + (get(key) and 1 or 0) end
  return int(n)
end

function commands.INCRBY(key, by)
  local value, step = get(key) or "0", integer(by)
  if type(value) ~= "string" then return WRONG_TYPE end
  local n = integer(value)
  if not n or not step then return NOT_INTEGER end
  data[key] = ("%d"):format(n + step)
  return int(n + step)
end
function commands.INCR(key) return commands.INCRBY(key, "1") end
function commands.DECR(key) return commands.INCRBY(key, "-1") end

function commands.EXPIRE(key, seconds)
  local n = integer(seconds)
  if not n then return NOT_INTEGER end
  if not get(key) then return int(0) end
  expires[key] = pl.now() + n
  return int(1)
end

function commands.TTL(key)
  if not get(key) then return int(-2) end
  local at = expires[key]
  return int(at and math.ceil(at - pl.now()) or -1)
end

local function push(key, left, ...)
  local l, wrong = list(key, true)
  if not l then return wrong end
  for _, value in ipairs { ... } do
    if left then
      l.first = l.first - 1
      l[l.first] = value
    else
      l.last = l.last + 1
      l[l.last] = value
    end
  end
  return int(l.last - l.first + 1)
end
function commands.LPUSH(key, ...) return push(key, true, ...) end
function commands.RPUSH(key, ...) return push(key, false, ...) end

local function pop(key, left)
  local l, wrong = list(key)
  if not l then return wrong or NIL end
  local place = left and l.first or l.last
  local value = l[place]
  l[place] = nil
  if left then l.first = place + 1 else l.last = place - 1 end
  if l.first > l.last then data[key], expires[key] = nil, nil end
  return bulk(value)
end
function commands.LPOP(key) return pop(key, true) end
function commands.RPOP(key) return pop(key, false) end

function commands.LLEN(key)
  local l, wrong = list(key)
  return wrong or int(l and l.last - l.first + 1 or 0)
end

function commands.LRANGE(key, from, to)
  local l, wrong = list(key)
  local a, b = integer(from), integer(to)
  if not a or not b then return NOT_INTEGER end
  if not l then return wrong or EMPTY end
  local n = l.last - l.first + 1
  if a < 0 then a = math.max(a + n, 0) end
  if b < 0 then b = b + n end
  b = math.min(b, n - 1)
  local parts = { ("*%d\r\n"):format(math.max(b - a + 1, 0)) }
  for i = a, b do parts[#parts + 1] = bulk(l[l.first + i]) end
  return table.concat(parts)
end

function commands.FLUSHALL()
  data, expires = {}, {}
  return OK
end
function commands.COMMAND() return EMPTY end
function commands.CONFIG() return EMPTY end

-- How many arguments each takes at least.
local least = { ECHO = 1, SET = 2, GET = 1, MSET = 2, DEL = 1, EXISTS = 1, INCRBY = 2, INCR = 1, DECR = 1, EXPIRE = 2, TTL = 1 }
for name, n in pairs { LPUSH = 2, RPUSH = 2, LPOP = 1, RPOP = 1, LLEN = 1, LRANGE = 3 } do least[name] = n end

-- A request: its words; nil at the end; false and a reply if it is none.
local function request(c)
  local line = c:read_line(65536)
  if not line then return nil end
  local n = integer(line:match "^%*(.*)" or "")
  if not n then
    local words = {}
    for word in line:gmatch "%S+" do words[#words + 1] = word end
    return words
  end
  if n < 0 or n > 1024 then return false, fault "ERR Protocol error: invalid multibulk length" end
  local words = {}
  for i = 1, n do
    local head = c:read_line(65536)
    if not head then return nil end
    local size = integer(head:match "^%$(.*)" or "")
    if not size or size < 0 or size > 512 << 20 then return false, fault "ERR Protocol error: invalid bulk length" end
    local word = c:read_exact(size)
    if not word or not c:read_exact(2) then return nil end
    words[i] = word
  end
  return words
end

local function serve(c)
  local c <close> = c
  while true do
    local words, wrong = request(c)
    if not words then
      if wrong then c:write(wrong) end
      return
    end
    if words[1] then
      local name = words[1]:upper()
      local command = commands[name]
      if not command then
        wrong = fault(("ERR unknown command '%s'"):format(words[1]:sub(1, 64):gsub("%c", "?")))
      elseif #words - 1 < (least[name] or 0) then
        wrong = fault(("ERR wrong number of arguments for '%s' command"):format(name:lower()))
      end
      if not c:write(wrong or command(table.unpack(words, 2))) then return end
    end
  end
end

-- What nobody asks for any more goes all the same.
local function sweep()
  for key in pairs(expires) do get(key) end
end

local function run(s, listener)
  s:daemon(function()
    while true do
      pl.sleep(1)
      sweep()
    end
  end)
  for c in listener do s:daemon(serve, c) end
end

-- A listener at the address of the command line; or the program ends with what is wrong.
local function listen(address)
  local ok, listener, message = pcall(net.listen, address)
  if ok and listener then return listener end
  io.stderr:write("resp: ", ok and message or listener, "\n")
  os.exit(1)
end

if arg[1] then
  local listener = listen(arg[1])
  print(listener:endpoint())
  io.stdout:flush()
  pl.scope(run, listener)
  return
end

pl.scope(function(s)
  local listener = assert(net.listen "127.0.0.1:0")
  s:daemon(function() pl.scope(run, listener) end)
  local c <close> = assert(net.connect(listener:endpoint()))
  local function reply()
    local line = c:read_line()
    local kind, rest = line:sub(1, 1), line:sub(2)
    if kind == "$" then
      if rest == "-1" then return "(nil)" end
      local text = c:read_exact(tonumber(rest))
      c:read_exact(2)
      return ("%q"):format(text)
    elseif kind == "*" then
      local parts = {}
      for i = 1, tonumber(rest) do parts[i] = reply() end
      return "[" .. table.concat(parts, " ") .. "]"
    end
    return rest
  end
  local function ask(...)
    local words = { ... }
    c:write(("*%d\r\n"):format(#words))
    for _, word in ipairs(words) do c:write(bulk(word)) end
    print(table.concat(words, " "), reply())
  end
  ask "PING"
  ask("SET", "name", "moon")
  ask("GET", "name")
  ask("INCR", "visits")
  ask("INCRBY", "visits", "41")
  ask("INCR", "name")
  ask("RPUSH", "list", "b", "c")
  ask("LPUSH", "list", "a")
  ask("LRANGE", "list", "0", "-1")
  ask("RPOP", "list")
  ask("LLEN", "list")
  ask("GET", "list")
  ask("SET", "brief", "x", "PX", "10")
  ask("EXPIRE", "name", "100")
  ask("TTL", "name")
  pl.sleep(0.02)
  ask("GET", "brief")
  ask("DEL", "name", "list", "brief")
  ask("DANCE")
  ask("GET")
  -- a hundred requests before the first reply is read
  for i = 1, 100 do c:write("*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n") end
  local last
  for _ = 1, 100 do last = reply() end
  print("100 x INCR n", last)
end)
