-- `require "ssl"`: what programs written for LuaSec use, on the sessions of perilune.net. A wrapped socket is a connection of that module (`conn`), which has the TLS, and a socket of LuaSocket with the
-- same descriptor (`sock`), by which `select` knows it. What was decrypted and not returned is in `buffer`.
local module = ...
local raw = module.raw
local b64 = require "mime.core".b64
local concat, error, find, getmetatable, ipairs, math, min, pcall, setmetatable, sub, tonumber, tostring, type =
  table.concat, error, string.find, getmetatable, ipairs, math, math.min, pcall, setmetatable, string.sub, tonumber, tostring, type

local ssl = { _VERSION = "1.3.2" }

-- Contexts -------------------------------------------------------------------------------------------------------------------------

local Context = { __name = "SSL context" }
Context.__index = Context

-- What a session's version has to be, at least.
local PROTOCOLS = { any = false, sslv23 = false, tls = false, tlsv1_2 = false, tlsv1_3 = "TLSv1.3" }

local function has(list, word)
  if type(list) == "string" then return list == word end
  for _, other in ipairs(type(list) == "table" and list or {}) do
    if other == word then return true end
  end
  return false
end

-- The text of a file that is one of certificates or a key.
local function pem(path, what)
  if type(path) ~= "string" then return nil, ("error loading %s (a file's name expected, got %s)"):format(what, type(path)) end
  local file, problem = io.open(path, "rb")
  local text = file and file:read "a"
  if file then file:close() end
  if not text then return nil, ("error loading %s (%s)"):format(what, problem or "it cannot be read") end
  if text:find("ENCRYPTED", 1, true) then return nil, ("error loading %s (%s is encrypted, which is not supported: decrypt it with 'openssl pkey')"):format(what, path) end
  return text
end

-- A certificate with its key, as perilune.net writes them.
local function identity(entry)
  if entry.certificate == nil and entry.key == nil then return false end
  local cert, problem = pem(entry.certificate, "certificate")
  if not cert then return nil, problem end
  if entry.key == nil then return { cert = cert } end
  local key
  key, problem = pem(entry.key, "private key")
  if not key then return nil, problem end
  return { cert = cert, key = key }
end

function ssl.newcontext(params)
  if type(params) ~= "table" then error("bad argument #1 to 'newcontext' (table expected, got " .. type(params) .. ")", 2) end
  local protocol = params.protocol or "any"
  if PROTOCOLS[protocol] == nil then return nil, ("invalid protocol (%s)"):format(tostring(protocol)) end
  local mode = params.mode
  if mode ~= "client" and mode ~= "server" then return nil, ("invalid mode (%s)"):format(tostring(mode)) end
  if params.capath then return nil, "capath is not supported: put the certificates into one file, and say cafile" end
  if type(params.alpn) == "function" then return nil, "a function for alpn is not supported: give a list of names" end
  local own, problem = identity(params)
  if own == nil then return nil, problem end
  local tls = { alpn = params.alpn, cert = own and own.cert or nil, key = own and own.key or nil }
  local others = {}
  for n, entry in ipairs(params.certificates or {}) do
    others[n], problem = identity(entry)
    if not others[n] then return nil, problem or "error loading certificate (none is named)" end
  end
  local ca
  if params.cafile then
    ca, problem = pem(params.cafile, "CA locations")
    if not ca then return nil, problem end
  end
  if mode == "client" then
    tls.ca = ca
    tls.insecure = has(params.verify, "none") or nil
    if not tls.cert and others[1] then tls.cert, tls.key = others[1].cert, others[1].key end
  else
    if has(params.verify, "peer") then
      if not ca then return nil, "verify: the authorities of clients are to be named by cafile" end
      tls.client_ca = ca
    end
    if #others > 0 then tls.certs = others end
  end
  return setmetatable({ mode = mode, protocol = PROTOCOLS[protocol], tls = tls }, Context)
end

-- Connections ----------------------------------------------------------------------------------------------------------------------

local Connection = { __name = "SSL connection" }
Connection.__index = Connection
Connection.class = "ssl"

-- How a failure is called: what one has to wait for, or what is wrong.
local function word(self, direction, message, code)
  if code == "timeout" then
    self._want = direction
    return "want" .. direction
  end
  if code == "closed" or code == "reset" or code == "EPIPE" then return "closed" end
  return message
end

function ssl.wrap(sock, params)
  local context, problem = params, nil
  if getmetatable(params) ~= Context then
    context, problem = ssl.newcontext(params)
    if not context then return nil, problem end
  end
  local conn, inner, block, total = raw.wrap(sock)
  if not conn then return nil, inner end
  local self = setmetatable({ _conn = conn, _sock = inner, _context = context, _buffer = "", _want = "nothing" }, Connection)
  self:settimeout(block)
  self:settimeout(total, "t")
  return self
end

function Connection:settimeout(seconds, mode)
  if seconds ~= nil and type(tonumber(seconds)) ~= "number" then error("bad argument #1 to 'settimeout' (number expected, got " .. type(seconds) .. ")", 2) end
  seconds = tonumber(seconds)
  if seconds and seconds < 0 then seconds = nil end
  if mode and sub(mode, 1, 1) == "t" then self._total = seconds else self._block = seconds end
  local span = self._block
  if self._total then span = span and min(span, self._total) or self._total end
  self._conn:set { read_timeout = span or false, write_timeout = span or false }
  return 1
end

function Connection:sni(name, strict)
  if self._begun then error("'sni' is to be called before 'dohandshake'", 2) end
  if type(name) == "string" then
    self._name = name
    return
  end
  if type(name) ~= "table" then error("bad argument #1 to 'sni' (string or table expected, got " .. type(name) .. ")", 2) end
  -- Which one a client means is found by the names in certificates.
  self._contexts = name
end

-- What the handshake begins from.
local function setup(self)
  local tls = { server = self._context.mode == "server" }
  for key, value in next, self._context.tls do tls[key] = value end
  if not tls.server then
    tls.name = self._name
    -- Nobody looks at the name of one who is not verified.
    if not tls.name and tls.insecure then tls.name = self._conn:peer() end
    if not tls.name then return nil, "whom the server has to be is not known: call conn:sni(name) before conn:dohandshake(), or say verify = \"none\"" end
  elseif self._contexts then
    local certs = { table.unpack(tls.certs or {}) }
    for _, context in next, self._contexts do certs[#certs + 1] = { cert = context.tls.cert, key = context.tls.key } end
    tls.certs = certs
  end
  return tls
end

function Connection:dohandshake()
  if self._ready then return true end
  local conn, called, ok, message, code = self._conn, true, nil, nil, nil
  if not self._begun then
    local tls
    tls, message = setup(self)
    if not tls then return false, message end
    self._begun = true
    called, ok, message, code = pcall(conn.start_tls, conn, tls)
    if not called then return false, ok end
  else
    -- It waits for the end of the handshake, too.
    ok, message, code = conn:write ""
  end
  if not ok then return false, word(self, "read", message, code) end
  local version = conn:info().tls.protocol
  local least = self._context.protocol
  if least and version ~= least then
    conn:abort()
    return false, ("the peer speaks %s, and %s is demanded"):format(version, least)
  end
  self._ready, self._want = true, "nothing"
  return true
end

function Connection:send(data, first, last)
  data = tostring(data)
  first, last = first or 1, last or #data
  if first < 0 then first = #data + first + 1 end
  if last < 0 then last = #data + last + 1 end
  if first < 1 then first = 1 end
  if last > #data then last = #data end
  if first > last then return first - 1 end
  if not self._ready then return nil, "closed", first - 1 end
  local conn = self._conn
  -- A write is taken whole or not at all.
  local ok, message, code = conn:write(first == 1 and last == #data and data or sub(data, first, last))
  if not ok then return nil, word(self, "write", message, code), first - 1 end
  ok, message, code = conn:flush()
  -- What was taken goes on its way.
  if not ok and code ~= "timeout" then return nil, word(self, "write", message, code), first - 1 end
  self._want = "nothing"
  return last
end

-- At most `more` bytes, and a part of what there is.
local function receive(self, wanted)
  local pieces, size = { self._buffer }, #self._buffer
  while not wanted or size < wanted do
    local piece, message, code = self._conn:read()
    if not piece then
      self._buffer = concat(pieces)
      return nil, word(self, "read", message, code)
    end
    pieces[#pieces + 1], size = piece, size + #piece
  end
  self._buffer = concat(pieces)
  return true
end

local function take(self, n, gone)
  local text = sub(self._buffer, 1, n)
  self._buffer = sub(self._buffer, n + gone + 1)
  self._want = "nothing"
  return text
end

function Connection:receive(pattern, prefix)
  prefix = prefix and tostring(prefix) or ""
  if pattern == nil then pattern = "*l" end
  local kind = type(pattern) == "string" and pattern:match "^%*?([al])" or nil
  local count = not kind and tonumber(pattern)
  if not kind and (not count or count < 0) then error("bad argument #1 to 'receive' (invalid receive pattern)", 2) end
  if not self._ready then return nil, "closed", prefix end
  local ok, problem
  if kind == "l" then
    local at, from = nil, 1
    repeat
      at = find(self._buffer, "\n", from, true)
      if at then
        local line = take(self, at - 1, 1):gsub("\r", "")
        return prefix .. line
      end
      from = #self._buffer + 1
      ok, problem = receive(self, #self._buffer + 1)
    until not ok
  elseif kind == "a" then
    ok, problem = receive(self)
    if problem == "closed" and #self._buffer > 0 then return prefix .. take(self, #self._buffer, 0) end
  else
    local wanted = math.max(math.tointeger(count) or math.floor(count), #prefix) - #prefix
    ok, problem = receive(self, wanted)
    if ok then return prefix .. take(self, wanted, 0) end
  end
  local rest = self._buffer
  self._buffer = ""
  return nil, problem, prefix .. rest
end

function Connection:close()
  self._conn:close()
  raw.close(self._sock)
end

Connection.__close = Connection.close
Connection.__gc = function(self) raw.close(self._sock) end

function Connection:getfd() return raw.getfd(self._sock) end
function Connection:dirty() return #self._buffer > 0 or self._conn:info().unread > 0 end
function Connection:want() return self._want end

function Connection:getstats()
  local info = self._conn:info()
  local _, _, age = raw.getstats(self._sock)
  return info.received, info.sent, age
end

-- Of a session that is there.
local function session(self) return self._ready and not self._conn:is_closed() and self._conn:info().tls or nil end

-- As OpenSSL calls it: TLS_AES_256_GCM_SHA384, ECDHE-RSA-AES256-GCM-SHA384.
local function cipher(name)
  if not name or name:find "^TLS13_" then return name and "TLS_" .. name:sub(7) end
  return (name:gsub("^TLS_", ""):gsub("_WITH_", "-"):gsub("_", "-"):gsub("AES%-(%d)", "AES%1"))
end

function Connection:info(field)
  local tls = session(self)
  if not tls then return nil end
  local info = { protocol = tls.protocol, cipher = cipher(tls.cipher), compression = false }
  if field then return info[field] end
  return info
end

function Connection:getalpn()
  local tls = session(self)
  return tls and tls.alpn
end

function Connection:getsniname()
  local tls = session(self)
  return tls and tls.name
end

local Certificate = { __name = "SSL certificate" }
Certificate.__index = Certificate

function Certificate:pem()
  local text = b64(self._der):gsub(("."):rep(64), "%0\n"):gsub("\n$", "")
  return "-----BEGIN CERTIFICATE-----\n" .. text .. "\n-----END CERTIFICATE-----\n"
end

-- The common name is all that is read of it.
function Certificate:subject() return self._name and { { name = "commonName", value = self._name, oid = "2.5.4.3" } } or {} end

function Connection:getpeercertificate(n)
  local tls = session(self)
  if not tls or not tls.peer_certificate or n and n ~= 1 then return nil end
  return setmetatable({ _der = tls.peer_certificate, _name = tls.peer_name }, Certificate)
end

-- A peer that was to be verified and could not has no session.
function Connection:getpeerverification()
  local tls = session(self)
  if not tls then return false, "closed" end
  local wishes = self._context.tls
  if wishes.insecure or self._context.mode == "server" and not wishes.client_ca then return false, "the peer was not verified" end
  return true
end

local old = "LuaSec's '%s' is not supported: docs/luasocket.md says what is"
for _, name in ipairs { "getpeerchain", "getlocalcertificate", "getfinished", "getpeerfinished", "exportkeyingmaterial", "setdane", "settlsa" } do
  Connection[name] = function() error(old:format(name), 2) end
end

Connection.__tostring = function(self) return "SSL connection: " .. raw.getfd(self._sock) end

ssl.config = {
  protocols = { any = true, tlsv1_2 = true, tlsv1_3 = true },
  options = {}, curves = {}, algorithms = { ec = true }, capabilities = { alpn = true },
}

module.module = ssl
