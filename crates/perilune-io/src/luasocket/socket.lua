-- LuaSocket's modules on the natives of this room: what needs no loop of attempts.
local raw = ...
local pl = require "perilune"
local error, getmetatable, ipairs, pairs, pcall, select, setmetatable, tonumber, tostring, type =
  error, getmetatable, ipairs, pairs, pcall, select, setmetatable, tonumber, tostring, type
local class, new, lookup = raw.class, raw.new, raw.lookup
local setmetatable_of = debug.setmetatable

-- Objects --------------------------------------------------------------------------------------------------------------------------

local tcp, udp, unix = {}, {}, {}
local metatables = {}

local function metatable(name, methods)
  metatables[name] = {
    __index = methods, __name = name,
    __tostring = function(s) return class(s) .. ": " .. tostring(raw.getfd(s)) end,
    __close = function(s) raw.close(s) end,
  }
end
metatable("tcp", tcp)
metatable("udp", udp)
metatable("unix", unix)

local function object(name, kind, family, state)
  local s, problem = new(kind, family, name .. "{" .. state .. "}")
  if not s then return nil, problem end
  return setmetatable_of(s, metatables[name])
end

local function expect(s, n, state, method)
  local is = class(s)
  if not is:find("{" .. state .. "}", 1, true) then
    error(("bad argument #%d to '%s' (%s{%s} expected)"):format(n, method, is:match "^%a*", state), 3)
  end
end

for _, name in ipairs { "send", "receive", "close", "shutdown", "settimeout", "gettimeout", "getstats", "setstats", "getfd", "setfd", "dirty", "listen" } do
  tcp[name], unix[name] = raw[name], raw[name]
end
for _, name in ipairs { "getfamily", "getpeername", "getsockname", "setoption", "getoption" } do tcp[name], udp[name] = raw[name], raw[name] end
for _, name in ipairs { "setoption", "getoption", "getsockname" } do unix[name] = raw[name] end
for _, name in ipairs { "close", "settimeout", "gettimeout", "getfd", "setfd", "dirty" } do udp[name] = raw[name] end

-- What programs print of an object's class; what it is at the moment is in tostring.
tcp.class, udp.class, unix.class = "tcp", "udp", "unix"

for name, methods in pairs { tcp = tcp, unix = unix } do
  methods.accept = function(s)
    expect(s, 1, "server", "accept")
    local c, problem = raw.accept(s)
    if not c then return nil, problem end
    return setmetatable_of(c, metatables[name])
  end
end

-- Addresses ------------------------------------------------------------------------------------------------------------------------

local function family_of(address) return address:find(":", 1, true) and "inet6" or "inet" end

local function port_of(port)
  local n = math.tointeger(tonumber(port))
  if n and n >= 0 and n <= 65535 then return n end
  return nil, "service not supported for socket type"
end

-- The addresses of a name, of the kind that the socket has already.
local function addresses(s, host)
  local found, problem = lookup(host)
  if not found then return nil, problem end
  if raw.getfd(s) < 0 then return found end
  local mine, kept = raw.getfamily(s) == "inet6" and "inet6" or "inet", {}
  for _, address in ipairs(found) do
    if family_of(address) == mine then kept[#kept + 1] = address end
  end
  if #kept == 0 then return nil, "host or service not provided, or not known" end
  return kept
end

local function check(method, n, value, wanted)
  local kind = type(value)
  if kind ~= wanted and not (wanted == "string" and kind == "number") then
    error(("bad argument #%d to '%s' (%s expected, got %s)"):format(n, method, wanted, value == nil and "no value" or kind), 3)
  end
  return tostring(value)
end

local function connect_to(s, host, port)
  local number, problem = port_of(port)
  if not number then return nil, problem end
  local found
  found, problem = addresses(s, host)
  if not found then return nil, problem end
  for _, address in ipairs(found) do
    local ok
    ok, problem = raw.connect(s, address, number)
    local block, total = raw.gettimeout(s)
    local at_once = block == 0 or total == 0
    if problem == "wait" then
      if at_once then problem = "timeout" else ok, problem = raw.wait_connected(s) end
    end
    if ok then return 1 end
    if at_once then break end
  end
  return nil, problem
end

local function bind_to(s, host, port)
  local number, problem = port_of(port)
  if not number then return nil, problem end
  local found
  if host == "*" then
    found = { raw.getfamily(s) == "inet6" and "::" or "0.0.0.0" }
  else
    found, problem = addresses(s, host)
    if not found then return nil, problem end
  end
  for _, address in ipairs(found) do
    local ok
    ok, problem = raw.bind(s, address, number)
    if ok then return 1 end
  end
  return nil, problem
end

function tcp.connect(s, host, port)
  host, port = check("connect", 2, host, "string"), check("connect", 3, port, "string")
  local ok, problem = connect_to(s, host, port)
  -- Also if it has not come about yet: the program may look later.
  class(s, "client")
  if ok then return ok end
  return nil, problem
end
tcp.setpeername = tcp.connect

function tcp.bind(s, host, port)
  expect(s, 1, "master", "bind")
  return bind_to(s, check("bind", 2, host, "string"), check("bind", 3, port, "string"))
end
tcp.setsockname = tcp.bind

function unix.connect(s, path)
  local ok, problem = raw.connect(s, check("connect", 2, path, "string"))
  if problem == "wait" then
    local block, total = raw.gettimeout(s)
    if block == 0 or total == 0 then problem = "timeout" else ok, problem = raw.wait_connected(s) end
  end
  class(s, "client")
  if ok then return 1 end
  return nil, problem
end
unix.setpeername = unix.connect

function unix.bind(s, path)
  expect(s, 1, "master", "bind")
  return raw.bind(s, check("bind", 2, path, "string"))
end
unix.setsockname = unix.bind

-- Datagrams ------------------------------------------------------------------------------------------------------------------------

function udp.send(s, data)
  expect(s, 1, "connected", "send")
  return raw.send_datagram(s, data)
end

function udp.sendto(s, data, ip, port)
  expect(s, 1, "unconnected", "sendto")
  check("sendto", 2, data, "string")
  check("sendto", 3, ip, "string")
  local number, problem = port_of(port)
  if not number then return nil, problem end
  local ok, sent, failure = pcall(raw.send_datagram, s, data, ip, number)
  if not ok then
    if type(sent) == "string" and sent:find("is no IP address", 1, true) then return nil, "host or service not provided, or not known" end
    error(sent, 0)
  end
  return sent, failure
end

function udp.receive(s, size)
  local data, problem = raw.receive_datagram(s, size)
  if data then return data end
  return nil, problem
end

function udp.receivefrom(s, size)
  expect(s, 1, "unconnected", "receivefrom")
  return raw.receive_datagram(s, size)
end

function udp.setpeername(s, host, port)
  check("setpeername", 2, host, "string")
  if host == "*" then
    raw.disconnect(s)
    class(s, "unconnected")
    return 1
  end
  local ok, problem = connect_to(s, host, check("setpeername", 3, port, "string"))
  if not ok then return nil, problem end
  class(s, "connected")
  return 1
end

function udp.setsockname(s, host, port)
  expect(s, 1, "unconnected", "setsockname")
  return bind_to(s, check("setsockname", 2, host, "string"), check("setsockname", 3, port, "string"))
end

-- Functions ------------------------------------------------------------------------------------------------------------------------

local core = {
  _VERSION = "LuaSocket 3.1.0", _SETSIZE = 1 << 20, _SOCKETINVALID = -1, _DATAGRAMSIZE = 8192,
  gettime = raw.gettime, skip = raw.skip,
}
raw.core = core

function core.__unload() end

function core.sleep(seconds)
  if type(seconds) ~= "number" then seconds = tonumber(seconds) or error("bad argument #1 to 'sleep' (number expected)", 2) end
  pl.sleep(seconds > 0 and seconds or 0)
end

function core.tcp() return object("tcp", "stream", "unspec", "master") end
function core.tcp4() return object("tcp", "stream", "inet", "master") end
function core.tcp6() return object("tcp", "stream", "inet6", "master") end
function core.udp() return object("udp", "dgram", "unspec", "unconnected") end
function core.udp4() return object("udp", "dgram", "inet", "unconnected") end
function core.udp6() return object("udp", "dgram", "inet6", "unconnected") end

function core.connect(host, port, from, from_port, family)
  local s, problem = object("tcp", "stream", family or "unspec", "master")
  if not s then return nil, problem end
  if from then
    local ok
    ok, problem = bind_to(s, from, from_port or 0)
    if not ok then return nil, problem end
  end
  host, port = check("connect", 1, host, "string"), check("connect", 2, port, "string")
  local ok
  ok, problem = connect_to(s, host, port)
  if not ok then
    raw.close(s)
    return nil, problem
  end
  class(s, "client")
  return s
end

-- An error that 'protect' returns instead of raising it.
local Wrapped = { __metatable = false }
local wrapped = setmetatable({}, { __mode = "k" })

function core.newtry(finalizer)
  return function(...)
    if ... then return ... end
    if finalizer then finalizer() end
    local problem = setmetatable({ (select(2, ...)) }, Wrapped)
    wrapped[problem] = true
    error(problem, 0)
  end
end

local function unwrap(ok, ...)
  if ok then return ... end
  local problem = ...
  if type(problem) == "table" and wrapped[problem] then return nil, problem[1] end
  error(problem, 0)
end

function core.protect(f)
  return function(...) return unwrap(pcall(f, ...)) end
end

-- The objects of a list that have descriptors. What has been received already needs no waiting.
local function collect(list, fds, objects, dirty, n)
  if list == nil then return end
  if type(list) ~= "table" then error(("bad argument #%d to 'select' (table expected, got %s)"):format(n, type(list)), 3) end
  for _, s in ipairs(list) do
    local getfd = s.getfd
    local fd = getfd and tonumber(getfd(s)) or -1
    if fd >= 0 then
      local is_dirty = dirty and s.dirty
      if is_dirty and is_dirty(s) then
        dirty[#dirty + 1] = s
      else
        fds[#fds + 1] = math.tointeger(fd)
        objects[#objects + 1] = s
      end
    end
  end
end

local function result(found, ready, objects)
  for n, fd in ipairs(ready) do
    if fd then found[#found + 1] = objects[n] end
  end
  for n = 1, #found do found[found[n]] = n end
  return found
end

function core.select(reads, writes, timeout)
  local read_fds, write_fds, readers, writers, found = {}, {}, {}, {}, {}
  collect(reads, read_fds, readers, found, 1)
  collect(writes, write_fds, writers, nil, 2)
  local is_dirty = #found > 0
  local ready, writable = raw.wait_for(read_fds, write_fds, is_dirty and 0 or timeout)
  local r, w = result(found, ready, readers), result({}, writable, writers)
  if r[1] == nil and w[1] == nil then return r, w, "timeout" end
  return r, w
end

-- Names ----------------------------------------------------------------------------------------------------------------------------

local dns = { gethostname = raw.gethostname }
core.dns = dns

function dns.getaddrinfo(host)
  local found, problem = lookup(check("getaddrinfo", 1, host, "string"))
  if not found then return nil, problem end
  local list = {}
  for n, address in ipairs(found) do list[n] = { family = family_of(address), addr = address } end
  return list
end

local function resolved(host)
  local found = lookup(host)
  local ips = {}
  for _, address in ipairs(found or {}) do
    if family_of(address) == "inet" then ips[#ips + 1] = address end
  end
  if not ips[1] then return nil, "host not found" end
  return ips[1], { name = host, alias = {}, ip = ips }
end

function dns.toip(host) return resolved(check("toip", 1, host, "string")) end

-- Names of addresses are not looked up: an address has none here.
function dns.tohostname(host)
  host = check("tohostname", 1, host, "string")
  if host:find "^[%d.]+$" or host:find ":" then return nil, "host not found" end
  local ip, all = resolved(host)
  if not ip then return nil, all end
  return host, all
end

function dns.getnameinfo(host)
  local found, problem = lookup(check("getnameinfo", 1, host, "string"))
  if not found then return nil, problem end
  return found
end

raw.unix = {
  stream = function() return object("unix", "stream", "unix", "master") end,
}
raw.unix.tcp = raw.unix.stream
