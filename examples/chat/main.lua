-- A chat over WebSocket: rooms, names, and who comes and goes. `main.lua ADDRESS` serves, with a page for browsers at `/`;
-- without arguments it serves three clients of its own and prints what they see.
local http, json, log = require "perilune.http", require "perilune.json", require "perilune.log"
local net, pl, ws = require "perilune.net", require "perilune", require "perilune.ws"

local rooms = {}

-- Sends to everybody in a room. Each is sent to by a fiber of its own, so that one who does not read holds nobody up: what he has
-- not taken when the next message comes is not sent to him any more.
local function tell(room, message)
  local text = json.encode(message, { sort = true })
  for _, member in pairs(room) do
    if #member.inbox < 100 then member.inbox:send(text) end
  end
end

local function deliver(c, inbox)
  for text in inbox do
    if not c:send(text) then return end
  end
end

local function chat(c, request)
  local name = request:args().name or "somebody"
  local place = request.params.room
  local room = rooms[place] or {}
  rooms[place] = room
  local member = { name = name, inbox = pl.channel.new() }
  pl.scope(function(s)
    s:daemon(deliver, c, member.inbox)
    room[c] = member
    tell(room, { event = "came", name = name })
    local left <close> = setmetatable({}, { __close = function()
      room[c] = nil
      if not next(room) then rooms[place] = nil end
      tell(room, { event = "left", name = name })
    end })
    for text, kind in c do
      if kind == "text" then tell(room, { event = "said", name = name, text = text }) end
    end
  end)
  log.info("left", { room = place, name = name })
end

local PAGE <const> = [[
<!doctype html><meta charset="utf-8"><title>Chat</title>
<style>body { font: 16px sans-serif; max-width: 40em; margin: 2em auto } li { list-style: none }</style>
<ul id="said"></ul><form id="say"><input id="text" size="60" autofocus></form>
<script>
const name = prompt("Your name?") || "somebody"
const socket = new WebSocket(`${location.protocol.replace("http", "ws")}//${location.host}/chat/lobby?name=${encodeURIComponent(name)}`)
socket.onmessage = e => {
  const m = JSON.parse(e.data), li = document.createElement("li")
  li.textContent = m.event == "said" ? `${m.name}: ${m.text}` : `(${m.name} has ${m.event == "came" ? "come" : "left"})`
  said.append(li)
}
say.onsubmit = e => { e.preventDefault(); socket.send(text.value); text.value = "" }
</script>
]]

local server = http.server()
server:get("/", function() return { headers = { ["content-type"] = "text/html; charset=utf-8" }, body = PAGE } end)
server:ws("/chat/:room", chat, { limit = 4096 })

-- A listener at the address of the command line; or the program ends with what is wrong.
local function listen(address)
  local ok, listener, message = pcall(net.listen, address)
  if ok and listener then return listener end
  io.stderr:write("chat: ", ok and message or listener, "\n")
  os.exit(1)
end

if arg[1] then
  local listener = listen(arg[1])
  log.info("listening", { address = listener:endpoint() })
  server:run(listener)
  return
end

log.level "off"
pl.scope(function(s)
  local listener = assert(server:listen "127.0.0.1:0")
  local function join(name, room)
    return assert(ws.connect(("ws://%s/chat/%s?name=%s"):format(listener:endpoint(), room, name)))
  end
  local function see(who, c)
    local m = json.decode((assert(c:recv())))
    print(("%s sees: %s %s%s"):format(who, m.name, m.event, m.text and " " .. m.text or ""))
  end
  local ann = join("Ann", "lobby")
  see("Ann", ann)
  local bob = join("Bob", "lobby")
  see("Ann", ann)
  see("Bob", bob)
  local eve = join("Eve", "cellar")
  see("Eve", eve)
  bob:send "hello"
  see("Ann", ann)
  see("Bob", bob)
  ann:send "hello, Bob"
  see("Bob", bob)
  bob:close()
  see("Ann", ann)
  see("Ann", ann)
  print("Eve is alone: " .. tostring(pl.timeout(0.05, function() return eve:recv() end)))
end)
