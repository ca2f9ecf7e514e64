---@meta perilune.rpc
-- What `require "perilune.rpc"` returns, for lua-language-server. The guide is in ../rpc.md.

---Calls of functions in other programs.
---@class perilune.rpc
local rpc = {}

---@class perilune.rpc.serving
---@field max? integer connections at once (1000)
---@field calls? integer calls of one connection that run at once (256)
---@field domains? integer so many domains serve, to which the functions cross; without it, the calling domain does

---@class perilune.rpc.connecting
---@field timeout? number|false seconds that a call, or a step of a stream, may take
---@field window? integer bytes of items that a stream may be sent ahead (262144)

---Serves functions at a listener, in daemons of the running scope.
---@param listener perilune.net.listener
---@param functions table<string, fun(...: any): ...> by the names that clients call them
---@param options? perilune.rpc.serving
---@return perilune.fiber accepting the fiber that accepts connections; it ends when the listener is closed
function rpc.serve(listener, functions, options) end

---Connects to a server.
---@param address string|perilune.net.target|perilune.net.connection as for `net.connect`; or a connection that nobody has read from; or a host, and its port as the next argument
---@param options? perilune.rpc.connecting
---@return perilune.rpc.client? client
---@return string? message
---@return perilune.net.code? code
function rpc.connect(address, options) end

---@class perilune.rpc.client what is no method of it is a served function: `c:add(2, 3)`
---@field [string] fun(self: perilune.rpc.client, ...: any): ...
local client = {}

---Calls a function by its name, for names that are methods.
---@param name string
---@param ... any nil, booleans, numbers, strings, tables of these
---@return any ... its results; its error is raised
function client:call(name, ...) end

---The same without raising an error.
---@param name string
---@param ... any
---@return boolean? ok true, and the results behind it
---@return any message
---@return string? code `"error"`, `"unknown"`, `"cancelled"`, `"timeout"`, `"protocol"`, or one of `perilune.net.code`
function client:try(name, ...) end

---Calls a function and waits for nothing.
---@param name string
---@param ... any
---@return boolean? sent
---@return string? message
---@return perilune.net.code? code
function client:notify(name, ...) end

---The steps of the iterator that a function returns, for a loop.
---@param name string
---@param ... any
---@return fun(): ...
---@return nil
---@return nil
---@return any closing
function client:stream(name, ...) end

---Ends the connection. Who waits for an answer gets an error.
---@return boolean first it was open
function client:close() end

---Whether it is over.
---@return boolean closed
---@return string? why
function client:is_closed() end

---The server's host and port.
---@return string host without brackets
---@return integer? port
function client:peer() end

---The same as one text, as `net.connect` takes it.
---@return string
function client:peer_endpoint() end

---What there is to know: calls under way, bytes received and sent.
---@return { calls: integer, received: integer, sent: integer }
function client:info() end
