---@meta perilune.net
-- What `require "perilune.net"` returns, for lua-language-server. The guide is in ../io.md.

-- Sockets (../io.md) -------------------------------------------------------------------------------

---Connections and listeners whose operations wait without holding a thread. What fails without anybody's mistake returns
---`nil, message, code`.
---@class perilune.net
local net = {}

---Why an operation has not done what it was to do; other values are names of the system's errors, such as `"EADDRINUSE"`.
---@alias perilune.net.code "timeout"|"closed"|"refused"|"reset"|"name"|"busy"|"limit"|"tls"|string

---@class perilune.net.target where to connect to: `host` and `port`, or `path`
---@field host? string a name or an address
---@field port? integer
---@field path? string a socket of the file system; `@name` for one beside it
---@field timeout? number|false seconds for everything, the name included
---@field nodelay? boolean small writes go at once (true)
---@field tls? true|perilune.net.tls.client a TLS session on it

---What a client wants of a TLS session (../tls.md). Certificates and keys are names of PEM files, or the text of one.
---@class perilune.net.tls.client
---@field ca? string|string[] the authorities that it trusts, instead of the system's
---@field name? string whom the server's certificate has to be for, instead of the host
---@field cert? string the client's own certificate, with those that lead from it to the authority
---@field key? string its key, if it is not in the same file
---@field alpn? string|string[] the protocols that it speaks
---@field insecure? boolean trusts everybody (false)

---What a server wants of TLS sessions (../tls.md). Certificates and keys are names of PEM files, or the text of one.
---@class perilune.net.tls.server
---@field cert? string the server's certificate, with those that lead from it to the authority
---@field key? string its key, if it is not in the same file
---@field certs? { cert: string, key?: string }[] further ones, for other names
---@field alpn? string|string[] the protocols that it speaks, the best one first
---@field client_ca? string|string[] clients have to have certificates of these authorities

---Connects. The addresses of a name are tried in turn; after 250 ms without an answer the next one beside the others.
---@param address string|perilune.net.target `"host:port"`, `"[ipv6]:port"`, `"unix:/path"`; a host, if a port follows
---@param port? integer
---@return perilune.net.connection? connection
---@return string? message
---@return perilune.net.code? code
function net.connect(address, port) end

---Listens. Port 0 is one that is free; `"*:port"` any address of this machine.
---@overload fun(host: string, port: integer, options?: { backlog?: integer, tls?: perilune.net.tls.server }): perilune.net.listener?, string?, perilune.net.code?
---@param address string `"host:port"`, `"[ipv6]:port"`, `"*:port"`, `"unix:/path"`; a host, if a port follows
---@param options? { backlog?: integer, tls?: perilune.net.tls.server } `backlog`: how many connections may wait to be accepted (1024)
---@return perilune.net.listener? listener
---@return string? message
---@return perilune.net.code? code
function net.listen(address, options) end

---Looks a name up, as the system is set up to.
---@param name string
---@param options? { timeout?: number|false } seconds
---@return string[]? addresses
---@return string? message
---@return perilune.net.code? code
function net.resolve(name, options) end

---Listeners that a supervisor has opened before the program began (`LISTEN_FDS`), in order and by their names; empty the second time.
---@return table<integer|string, perilune.net.listener>? listeners
---@return string? message
---@return perilune.net.code? code
function net.inherited() end

---Tells the supervisor (`NOTIFY_SOCKET`) something, such as `"READY=1"`. False: nobody wants to hear.
---@param text string
---@return boolean? sent
---@return string? message
---@return perilune.net.code? code
function net.notify(text) end

---A socket for datagrams, at this address; without one, at any address of this machine with a port that is free.
---@param address? string `"1.2.3.4:port"`, `"[ipv6]:port"`, `"*:port"`
---@return perilune.net.udp? socket
---@return string? message
---@return perilune.net.code? code
function net.udp(address) end

---@class perilune.net.listener called by `for connection in listener do`, which ends when the listener is closed
local listener = {}

---Waits for a connection. Where descriptors are used up it is tried again after a while.
---@param limit? number|perilune.limit seconds; 0: it takes one that is there
---@return perilune.net.connection? connection
---@return string? message
---@return perilune.net.code? code
function listener:accept(limit) end

---Where clients connect: host and port. Of a Unix socket, its path alone.
---@return string host without brackets
---@return integer? port
function listener:address() end

---The same as one text, as `net.connect` takes it: `"127.0.0.1:80"`, `"[::1]:80"`, `"unix:/path"`.
---@return string
function listener:endpoint() end

---Ends it: no more connections are accepted, and who waits for one gets `nil, "closed"`. The file of a Unix socket is removed. Who has connected and was not accepted is served by `l:serve` or `rpc.serve`; the system resets them if the program accepts by itself.
---
---With `grace` it waits until `l:serve` has come to its end, in whatever fiber or domain that runs: what is going on has so many seconds, in place of the option of that name, and is cancelled then. What `rpc.serve` serves goes on with its scope.
---@param grace? number seconds
---@return boolean first false if it was closed; with `grace`: whether all connections have ended by themselves
function listener:close(grace) end

---What there is to know: `starved` counts how often there was no descriptor for a connection, `refused` the connections that were refused for that.
---@return { accepted: integer, starved: integer, refused: integer, endpoint: string, closed: boolean }
function listener:info() end

---@class perilune.net.serving
---@field domains? integer so many domains serve, to each of which the handler crosses; without it, the calling domain does
---@field max? integer connections at once, in all domains together (1000)
---@field grace? number seconds for what is going on when the listener is closed (10)
---@field on_error? fun(message: string, connection?: perilune.net.connection) called when a handler has failed; otherwise that goes to standard error

---Serves: calls the handler for each connection, in a fiber of its own, and closes the connection when it returns. Waits until the listener is closed and the connections have ended.
---@param handler fun(connection: perilune.net.connection)
---@param options? perilune.net.serving
---@return boolean all true if they have ended by themselves
function listener:serve(handler, options) end

---@class perilune.net.connection a stream of bytes in both directions, for one reader and any number of writers, in any domains
local connection = {}

---Reads what is there, at least one byte.
---@param n? integer bytes at most (65536)
---@return string? bytes
---@return string? message
---@return perilune.net.code? code `"closed"` at the end of the stream
function connection:read(n) end

---Reads so many bytes. If the stream ends before, those that came can be read otherwise.
---@param n integer
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function connection:read_exact(n) end

---Reads a line and returns it without its end, which is LF or CRLF. The last line of a stream needs no end.
---@param limit? integer bytes of a line at most (1048576)
---@return string? line
---@return string? message
---@return perilune.net.code? code
function connection:read_line(limit) end

---Reads up to a separator and returns what comes before it.
---@param separator string
---@param limit? integer bytes before it at most (1048576)
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function connection:read_until(separator, limit) end

---Reads until the stream ends.
---@param limit? integer bytes at most (67108864)
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function connection:read_all(limit) end

---Reads what is there into an array of bytes, without making a string. Waits for the first byte.
---@param array perilune.array of `u8`
---@param first? integer the element that the first byte goes to (1)
---@param n? integer bytes at most (as many as there is room for)
---@return integer? bytes how many have come
---@return string? message
---@return perilune.net.code? code `"closed"` at the end of the stream
function connection:read_into(array, first, n) end

---An iterator over lines. It ends with the stream; anything else is an error.
---@param limit? integer bytes of a line at most (1048576)
---@return fun(): string?
function connection:lines(limit) end

---The next bytes, which remain to be read; fewer than asked for if the stream ends.
---@param n integer
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function connection:peek(n) end

---Writes, whole or not at all. The bytes are gathered and go together; waits while more than `high_water` bytes wait to go.
---@param ... string|number
---@return true? written
---@return string? message
---@return perilune.net.code? code
function connection:write(...) end

---Waits until the system has all that was written.
---@return true? flushed
---@return string? message
---@return perilune.net.code? code
function connection:flush() end

---Flushes, and ends the stream for the peer. Reading goes on.
---@return true? ended
---@return string? message
---@return perilune.net.code? code
function connection:close_write() end

---Flushes and closes. Whatever it returns, the connection is closed; whoever waits on it gets `nil, "closed"`.
---@return true? flushed
---@return string? message
---@return perilune.net.code? code
function connection:close() end

---Closes at once: what has not gone is dropped, and the peer's operations fail.
---@return boolean first false if it was closed
function connection:abort() end

---Writes all that comes to another connection until the stream ends. `read_timeout` holds for each piece.
---@param other perilune.net.connection
---@return integer? bytes
---@return string? message
---@return perilune.net.code? code
function connection:copy_to(other) end

---Sends a file, or a part of it, behind what was written; where there is no TLS, without copying it. `write_timeout` holds for each MiB.
---@param file perilune.fs.file
---@param offset? integer (0)
---@param n? integer bytes at most (up to the end)
---@return integer? bytes
---@return string? message
---@return perilune.net.code? code
function connection:send_file(file, offset, n) end

---@class perilune.net.settings
---@field read_timeout? number|false seconds that an operation which reads may take
---@field write_timeout? number|false the same of writes, flushes and closing
---@field nodelay? boolean small writes go at once (true)
---@field high_water? integer above so many bytes that wait to go, writers wait (262144)

---Changes settings.
---@param settings perilune.net.settings
---@return perilune.net.connection? self
---@return string? message
---@return perilune.net.code? code
function connection:set(settings) end

---Begins a TLS session on the open connection, after everything that was written has gone, and waits for its handshake. Who has accepted the connection is the
---server, unless `server` says otherwise.
---@param options? perilune.net.tls.client|perilune.net.tls.server|{ server?: boolean, timeout?: number|false } timeout: seconds, in place of `read_timeout`
---@return true? started
---@return string? message
---@return perilune.net.code? code
function connection:start_tls(options) end

---What there is to know of a TLS session.
---@class perilune.net.info.tls
---@field protocol? string `"TLSv1.3"`, once it is agreed on
---@field cipher? string
---@field alpn? string the protocol that both ends speak
---@field name? string whom the client has asked for
---@field resumed boolean a session from before goes on
---@field handshaking boolean
---@field peer_name? string the common name in the peer's certificate
---@field peer_names? string[] the names of hosts in it
---@field peer_certificate? string the certificate, as DER

---@class perilune.net.info
---@field received integer bytes since the beginning
---@field sent integer
---@field unread integer bytes that have come and were not read
---@field unsent integer bytes that were written and have not gone
---@field high_water integer
---@field endpoint string
---@field peer_endpoint string
---@field closed boolean
---@field tls? perilune.net.info.tls

---What there is to know.
---@return perilune.net.info
function connection:info() end

---The other end's host and port. Of a Unix socket, its path alone: `""` if it has none.
---@return string host without brackets
---@return integer? port
function connection:peer() end

---The same as one text, as `net.connect` takes it: `"127.0.0.1:80"`, `"[::1]:80"`, `"unix:/path"`.
---@return string
function connection:peer_endpoint() end

---This end's host and port, as `peer` gives the other's.
---@return string host without brackets
---@return integer? port
function connection:address() end

---The same as one text, as `net.connect` takes it: `"127.0.0.1:80"`, `"[::1]:80"`, `"unix:/path"`.
---@return string
function connection:endpoint() end

---Whether it was closed here.
---@return boolean
function connection:is_closed() end

---@class perilune.net.udp a socket for datagrams, for one reader and any number of writers, in any domains
local udp = {}

---Sends a datagram. That it arrives is not said.
---@param bytes string
---@param address string `"1.2.3.4:port"` or `"[ipv6]:port"`; a host, if a port follows
---@param port? integer
---@return true? sent
---@return string? message
---@return perilune.net.code? code
function udp:send(bytes, address, port) end

---Waits for a datagram.
---@param limit? number|perilune.limit seconds, in place of `read_timeout`
---@return string? bytes
---@return string from the sender's endpoint, as `send` takes it; or a message
---@return perilune.net.code? code
function udp:recv(limit) end

---Changes settings: seconds that receiving and sending may take.
---@param settings { read_timeout?: number|false, write_timeout?: number|false }
---@return perilune.net.udp self
function udp:set(settings) end

---Where others send: host and port.
---@return string host without brackets
---@return integer port
function udp:address() end

---The same as one text, as `send` takes it: `"127.0.0.1:80"`, `"[::1]:80"`.
---@return string
function udp:endpoint() end

---Closes it. Who waits gets `nil, "closed"`.
---@return boolean first false if it was closed
function udp:close() end
