---@meta perilune.ws
-- What `require "perilune.ws"` returns, for lua-language-server. The guide is in ../ws.md.

---WebSocket (RFC 6455), on servers and requests of `perilune.http`.
---@class perilune.ws
local ws = {}

---@class perilune.ws.connecting
---@field limit? integer bytes of the longest message that is taken (1 MiB)
---@field read_timeout? number|false seconds that `recv` waits
---@field timeout? number|false seconds for the handshake
---@field protocols? string[] names that the server may choose from
---@field headers? table<string, string> more header fields
---@field tls? table as for `http.request`

---@class perilune.ws.accepting
---@field limit? integer bytes of the longest message that is taken (1 MiB)
---@field read_timeout? number|false seconds that `recv` waits
---@field protocols? string[] names, the preferred ones first
---@field origins? string[] values of `Origin` that are let in

---Connects to a server.
---@param url string `"ws://host:port/path"`, `"wss://host/path"`
---@param options? perilune.ws.connecting
---@return perilune.ws.connection? connection
---@return string? protocol the one that the server has chosen; or the message
---@return string? code
function ws.connect(url, options) end

---A request for WebSocket becomes a connection; or nothing, and the response that refuses it.
---@param request table a request of `perilune.http`
---@param options? perilune.ws.accepting
---@return perilune.ws.connection? connection
---@return any protocol the one that was chosen; or the response
function ws.accept(request, options) end

---A handler for `perilune.http` that calls a function with each connection.
---@param f fun(connection: perilune.ws.connection, request: table, protocol?: string)
---@param options? perilune.ws.accepting
---@return fun(request: table): any handler
function ws.handler(f, options) end

---@class perilune.ws.connection called by `for message, kind in connection do`, which ends when there are no more
local connection = {}

---Waits for a message.
---@param limit? number|perilune.limit seconds, in place of `read_timeout`
---@return string? message
---@return string? kind `"text"` or `"binary"`; or the message of what is wrong
---@return string? code `"closed"`, `"protocol"`, `"limit"`, `"timeout"`, or one of `perilune.net.code`
---@return integer? number what the peer's close says: 1005 nothing, 1006 there was none
---@return string? text
function connection:recv(limit) end

---Sends a message. Waits while the peer does not read.
---@param message string|{ binary: string } a text, which is UTF-8; or bytes
---@return boolean? sent
---@return string? message
---@return string? code
function connection:send(message) end

---Sends a ping. Answers are passed over by `recv`.
---@param data? string at most 125 bytes
---@return boolean? sent
---@return string? message
---@return string? code
function connection:ping(data) end

---Closes, and waits for nothing. What the peer sends until it has closed, too, may still be received.
---@param code? integer 1000 to 1003, 1007 to 1014, 3000 to 4999 (1000)
---@param text? string at most 123 bytes
---@return boolean first it was open
function connection:close(code, text) end

---The other end's host and port.
---@return string host without brackets
---@return integer? port
function connection:peer() end

---The same as one text, as `net.connect` takes it.
---@return string
function connection:peer_endpoint() end

---Whether nothing can be sent any more.
---@return boolean closed
function connection:is_closed() end
