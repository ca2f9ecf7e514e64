---@meta perilune.http
-- What `require "perilune.http"` returns, for lua-language-server. The guide is in ../http.md.

-- HTTP (../http.md) -------------------------------------------------------------------------------

---HTTP/1.1: a server and a client. What fails without anybody's mistake returns `nil, message, code`.
---@class perilune.http
local http = {}

---Why a request has no response; besides these, what connections fail with.
---@alias perilune.http.code "timeout"|"closed"|"refused"|"reset"|"name"|"limit"|"protocol"|"redirects"|"tls"|"status"|string

---Header fields: names in lower case; what is repeated is joined with commas, but `set-cookie`, which is a list.
---@alias perilune.http.fields table<string, string|number|string[]>

---@class perilune.http.limits
---@field header_timeout? number|false seconds for a head, from the connection's beginning or the head's first byte (10)
---@field idle_timeout? number|false seconds between a response and the next request (60)
---@field body_timeout? number|false seconds for each piece of a request's body (30)
---@field body_rate? integer bytes a second that a body comes with on average, after the first `body_timeout` (256)
---@field write_timeout? number|false seconds that a client which does not read is waited for (30)
---@field timeout? number|false seconds that a handler may take; then the response is a 503 (false)
---@field header_bytes? integer bytes of a head (16384)
---@field header_fields? integer header fields (100; never more than 256)
---@field body_limit? integer bytes of a request's body (1048576)
---@field max_connections? integer connections at once (10000, or four of five descriptors)
---@field on_error? fun(text: string, req: perilune.http.request?) gets errors of handlers; by default they go to standard error

---A server without routes.
---@param options? perilune.http.limits
---@return perilune.http.server
function http.server(options) end

---@class perilune.http.server
local server = {}

---@class perilune.http.route what is different for this route
---@field body_limit? integer bytes of a request's body
---@field timeout? number|false seconds that the handler may take

---What a handler returns: a response; a string, which is its body; or a status.
---@alias perilune.http.handler fun(req: perilune.http.request): perilune.http.answer|string|integer|nil

---@class perilune.http.answer
---@field status? integer 200 to 999 (200)
---@field headers? perilune.http.fields `content-length` and `transfer-encoding` are the server's
---@field body? string|(fun(): string?) all of it; or a function that returns the next piece, and nil at the end
---@field stream? fun(out: perilune.http.writer) in place of `body`: writes the body

---GET requests, and HEAD, for which the body is left out.
---@param pattern string a path; `:name` stands for a part of it, `*name` for the rest
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:get(pattern, f, options) end

---POST requests.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:post(pattern, f, options) end

---PUT requests.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:put(pattern, f, options) end

---DELETE requests.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:delete(pattern, f, options) end

---PATCH requests.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:patch(pattern, f, options) end

---HEAD requests, where they are to be something else than GET without its body.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:head(pattern, f, options) end

---OPTIONS requests; without a route they are answered with the methods that there are.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:options(pattern, f, options) end

---Requests with any method for which there is no route of its own.
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:any(pattern, f, options) end

---Requests with this method.
---@param method string
---@param pattern string
---@param f perilune.http.handler
---@param options? perilune.http.route
---@return perilune.http.server self
function server:route(method, pattern, f, options) end

---Calls `f(req, next)` for each request, also where there is no route; `next(req)` is the response that there would be without it.
---@param f fun(req: perilune.http.request, next: fun(req: perilune.http.request): perilune.http.answer): perilune.http.answer|string|integer|nil
---@return perilune.http.server self
function server:use(f) end

---Calls a function with a WebSocket connection for each request for one at a path (`perilune.ws`).
---@param pattern string
---@param f fun(connection: perilune.ws.connection, request: table, protocol?: string)
---@param options? perilune.ws.accepting
---@return perilune.http.server self
function server:ws(pattern, f, options) end

---The files of a folder. What leads out of it, and names that begin with a dot, are not there.
---@param prefix string the path that the folder has
---@param folder string
---@param options? { index?: string, hidden?: boolean, max_age?: number }
---@return perilune.http.server self
function server:static(prefix, folder, options) end

---Serves in the background, as a daemon of the current scope.
---@overload fun(self: perilune.http.server, host: string, port: integer, options?: table): perilune.http.listener?, string?, perilune.http.code?
---@param address string|perilune.net.listener
---@param options? table for `net.listen`; and `domains`: so many domains serve, to which options and handlers cross
---@return perilune.http.listener? listener
---@return string? message
---@return perilune.http.code? code
function server:listen(address, options) end

---Serves until it is cancelled, the listener is closed, or SIGTERM comes: then it drains, as by `listener:close(grace)`.
---@param address string|perilune.net.listener
---@param options? table as for `listen`; `grace`: seconds for what is going on when SIGTERM comes (10); `drain`: false leaves the signal alone. May be left out
---@param ready? fun(l: perilune.http.listener) called when it listens
---@return boolean? ended false: something had to be cancelled
---@return string? message
---@return perilune.http.code? code
function server:run(address, options, ready) end

---@class perilune.http.listener
local listener = {}

---Where clients connect: host and port. Of a Unix socket, its path alone.
---@return string host without brackets
---@return integer? port
function listener:address() end

---The same as one text, as URLs have it: `"127.0.0.1:80"`, `"[::1]:80"`, `"unix:/path"`.
---@return string
function listener:endpoint() end

---Accepts no more, closes connections on which nothing goes on, and waits for the others; when the time is over they are cancelled.
---@param grace? number seconds (10)
---@return boolean all true if they have ended by themselves
function listener:close(grace) end

---Waits until it has been closed and its connections have ended.
---@return boolean all true if they have ended by themselves
function listener:wait() end

---What there is to know.
---@return { served: integer, connections: integer, idle: integer, closing: boolean }
function listener:info() end

---@class perilune.http.request
---@field method string
---@field path string as it came, before the `?`
---@field query string? what stands behind the `?`
---@field params table<string, string> what the route's names stand for
---@field headers perilune.http.fields
---@field host string? of the field `Host`, or of an absolute target
---@field target string as it came
---@field upgrades true? the client asks for another protocol
local request = {}

---The body, all of it.
---@param limit? integer bytes
---@return string? body
---@return string? message
---@return perilune.http.code? code
function request:text(limit) end

---The next piece of the body; nil at its end.
---@param n? integer bytes at most (65536)
---@return string? piece
---@return string? message nil at the end
---@return perilune.http.code? code
function request:read(n) end

---An iterator over pieces of the body. What is not its end is an error.
---@param n? integer bytes of a piece at most (65536)
---@return fun(): string?
function request:pieces(n) end

---The body as JSON.
---@return any value
---@return string? message
---@return perilune.http.code? code
function request:json() end

---The body as the fields of a form.
---@return table<string, string>? fields
---@return string? message
---@return perilune.http.code? code
function request:form() end

---The fields of the query; the first of a name counts.
---@return table<string, string>
function request:args() end

---The client's host and port.
---@return string host without brackets
---@return integer? port
function request:peer() end

---The same as one text, as `net.connect` takes it.
---@return string
function request:peer_endpoint() end

---Takes the connection over: the server does nothing with it any more. What the client has sent already is read first.
---@return perilune.net.connection
function request:take() end

---Answers that the protocol changes, with these header fields, and takes the connection over.
---@param headers perilune.http.fields
---@return perilune.net.connection? connection
---@return string? message
---@return perilune.http.code? code
function request:upgrade(headers) end

---@class perilune.http.writer
local writer = {}

---Writes pieces of the body. Waits for a client that does not keep up.
---@param ... string|number
---@return true? written
---@return string? message
---@return perilune.http.code? code
function writer:write(...) end

---Waits until the system has all that was written.
---@return true? flushed
---@return string? message
---@return perilune.http.code? code
function writer:flush() end

---A response of server-sent events.
---@param f fun(events: perilune.http.events) runs until the stream is to end
---@return perilune.http.answer
function http.events(f) end

---@class perilune.http.events
local events = {}

---Sends an event.
---@param event string|{ data: any, event?: string, id?: string|integer, retry?: integer }
---@return true? sent
---@return string? message
---@return perilune.http.code? code
function events:send(event) end

---Sends a comment, which clients skip: it shows whether they are there.
---@param text? string
---@return true? sent
---@return string? message
---@return perilune.http.code? code
function events:comment(text) end

---A response of JSON.
---@param value any
---@param status? integer (200)
---@return perilune.http.answer
function http.json(value, status) end

---A response that leads elsewhere.
---@param target string
---@param status? integer (302)
---@return perilune.http.answer
function http.redirect(target, status) end

---Middleware that compresses texts of some length for clients that understand it.
---@param options? { least?: integer } bytes from which it is worth while (1024)
---@return fun(req: perilune.http.request, next: function): perilune.http.answer
function http.gzip(options) end

---The phrase of a status.
---@param status integer
---@return string phrase empty if there is none
function http.reason(status) end

---@class perilune.http.options
---@field url? string
---@field method? string ("GET")
---@field headers? perilune.http.fields
---@field body? string|(fun(): string?) all of it; or a function that returns the next piece, and nil at the end
---@field json? any the body, as JSON
---@field form? table<string, any> the body, as the fields of a form
---@field timeout? number|false seconds for all of it, redirects and body included (30); with `stream` for the head, then for each read
---@field pool? perilune.http.pool|false where connections are kept (one for each domain)
---@field redirects? integer|false how many are followed (10)
---@field stream? boolean the body is left for the caller to read
---@field limit? integer bytes of the body at most (67108864)
---@field gzip? boolean asks for compressed bodies, and decompresses them (true)
---@field tls? table options of `https`, as `net.connect` has them

---@class perilune.http.response
---@field status integer
---@field reason string
---@field headers perilune.http.fields
---@field url string where it came from, after redirects
---@field body string? absent with `stream`
local response = {}

---With `stream`: the body, all that is left of it.
---@param limit? integer bytes
---@return string? body
---@return string? message
---@return perilune.http.code? code
function response:text(limit) end

---With `stream`: the next piece of the body; nil at its end.
---@param n? integer bytes at most (65536)
---@return string? piece
---@return string? message nil at the end
---@return perilune.http.code? code
function response:read(n) end

---With `stream`: an iterator over pieces of the body. What is not its end is an error.
---@param n? integer bytes of a piece at most (65536)
---@return fun(): string?
function response:pieces(n) end

---The body as JSON.
---@return any value
---@return string? message
---@return perilune.http.code? code
function response:json() end

---With `stream`: ends it; the rest of the body is not wanted. `local res <close> = ...` does the same.
function response:close() end

---Sends a request and reads its response.
---@param options perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.request(options) end

---A GET request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.get(url, options) end

---A POST request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.post(url, options) end

---A PUT request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.put(url, options) end

---A DELETE request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.delete(url, options) end

---A PATCH request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.patch(url, options) end

---A HEAD request.
---@param url string
---@param options? perilune.http.options
---@return perilune.http.response? response
---@return string? message
---@return perilune.http.code? code
function http.head(url, options) end

---Asks for another protocol; `headers.upgrade` is its name.
---@param options perilune.http.options
---@return perilune.net.connection? connection
---@return perilune.http.response|string response or message
---@return perilune.http.code? code `"status"`: the server does not want to
---@return perilune.http.response? response what it said instead
function http.upgrade(options) end

---A pool of connections that wait for their next request.
---@param options? { idle?: number|false, per_host?: integer, total?: integer } seconds that one is kept (30); how many (8, 64)
---@return perilune.http.pool
function http.pool(options) end

---@class perilune.http.pool
local pool = {}

---How many connections are in it.
---@return integer
function pool:count() end

---Closes them, and whatever comes back later.
function pool:close() end

---@class perilune.http.url
---@field scheme "http"|"https"
---@field host string
---@field port integer
---@field authority string host, and port if it is not the scheme's
---@field path string without `.` and `..`
---@field query string?
---@field target string path and query
---@field text string all of it

---The parts of an address.
---@param text string
---@param base? string the page on which it stands, if it is relative
---@return perilune.http.url? url
---@return string? message
function http.url(text, base) end

---Everything but letters, digits and `-._~` as `%XX`.
---@param text string
---@return string
function http.escape(text) end

---What a text with `%XX` stands for.
---@param text string
---@param plus? boolean a `+` is a space, as in forms
---@return string? text
---@return string? message
function http.unescape(text, plus) end

---The query of fields; a value may be a list.
---@param fields table<string, any>
---@return string
function http.encode_query(fields) end

---The fields of a query, of which the first of a name counts; and all of them, as a list of pairs.
---@param text string
---@return table<string, string> fields
---@return string[][] all
function http.decode_query(text) end

return http
