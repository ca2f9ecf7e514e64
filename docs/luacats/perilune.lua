---@meta perilune
-- What `require "perilune"` returns, for lua-language-server. Point `workspace.library` at this folder.
-- The guide is in ../parallel.md; each piece has a page under ../parallel/.

---Lua on all cores: domains, pools, channels, shared data, time.
---@class perilune
---@field domain perilune.domainlib
---@field pool perilune.poollib
---@field channel perilune.channellib
---@field trace perilune.tracelib
---@field io perilune.iolib
local perilune = {}

---Seconds of a monotonic clock.
---@return number seconds
function perilune.now() end

---Waits; other fibers of the domain run meanwhile.
---@param seconds number
function perilune.sleep(seconds) end

---Calls a function once, as a fiber of this domain.
---@param seconds number
---@param f fun(...: any)
---@param ... any arguments of `f`
---@return perilune.timer
---@overload fun(seconds: number): perilune.timer a timer for `select`
function perilune.after(seconds, f, ...) end

---Calls a function again and again, at `start + beat * seconds`: it does not drift. Beats that come due while `f` runs are counted and left out.
---@param seconds number greater than 0
---@param f fun(beat: integer, ...: any)
---@param ... any further arguments of `f`
---@return perilune.timer
function perilune.every(seconds, f, ...) end

---@class perilune.timer
local timer = {}

---Keeps the function from running (again).
---@return boolean kept false if it was cancelled before, or runs now
function timer:cancel() end

---A frozen deep copy that all domains read as an ordinary table; writes to it raise.
---@generic T
---@param v T
---@return T
function perilune.share(v) end

---Whether a value can be used by other domains without being copied.
---@param v any
---@return boolean
function perilune.is_shared(v) end

---A value as text for people: tables with their contents, cycles and shared tables marked, strings quoted so that they can be read back.
---@param value any
---@param options? perilune.inspect
---@return string
function perilune.inspect(value, options) end

---The contents of a file that belongs to the program: below the script's folder, or in the executable that `perilune build` has made.
---@param name string a path below the script's folder
---@return string? contents
---@return string? message why there are none
function perilune.asset(name) end

---@class perilune.inspect how much is shown, and how
---@field width? integer columns of a line (80)
---@field depth? integer tables within tables (8; 100 at most)
---@field items? integer entries of one table, sequence and other keys each (200)
---@field string? integer bytes of one string (4096)
---@field total? integer values in all (10000)
---@field metatables? boolean whether metatables are shown; by default those without `__name` and `__tostring`
---@field colour? boolean escape sequences of terminals (false)

---Runs `f(...)`; at its end everything that it allocated and did not let out is freed at once.
---@param f fun(...: any): ...
---@param ... any
---@return any ... the results of `f`
function perilune.arena(f, ...) end

---Waits for all tasks.
---@param tasks perilune.task[] with `timeout = seconds` if they may take too long
---@return any ... the first result of each; the error of the first that failed is raised; `nil, "timeout"`
function perilune.await_all(tasks) end

---Waits for one of the tasks.
---@param tasks perilune.task[] with `timeout = seconds` if they may take too long
---@return integer? index of a task that has ended; nil at a timeout
---@return any ... its results; its error is raised
function perilune.await_any(tasks) end

-- Memory -----------------------------------------------------------------------------------------

---@class perilune.memory what the program holds, in bytes
---@field total integer
---@field heaps integer objects in the heaps of all domains, garbage that has not been found included
---@field islands integer what `share` has made
---@field arrays integer shared arrays
---@field messages integer what is on its way between domains, and entries of maps
---@field limit? integer

---What the program holds now.
---@return perilune.memory
function perilune.memory() end

---Limits what all domains and what they share may hold together. Whoever asks for more gets the error "not enough memory".
---@param options { memory?: integer|false } bytes, 4 MiB at least; false: no limit; absent: only the limit is asked for
---@return integer? limit the limit before
function perilune.limit(options) end

-- Scopes and fibers ------------------------------------------------------------------------------

---@class perilune.limit
---@field timeout? number seconds

---Calls `f(s, ...)` and waits until everything that was started in the scope has ended. The first error cancels the rest and is raised.
---@param f fun(s: perilune.scope, ...: any): ...
---@param ... any
---@return any ... what `f` has returned; `nil` and why, if the scope was cancelled before
function perilune.scope(f, ...) end

---@class perilune.scope
local scope = {}

---A fiber that the scope waits for.
---@param f fun(...: any): ...
---@param ... any
---@return perilune.fiber
function scope:spawn(f, ...) end

---A fiber that is cancelled when the others have ended.
---@param f fun(...: any): ...
---@param ... any
---@return perilune.fiber
function scope:daemon(f, ...) end

---Cancels all fibers of the scope, its body too.
---@param why? string
---@return boolean first
function scope:cancel(why) end

---A fiber of the scope that runs; in none, of the domain.
---@param f fun(...: any): ...
---@param ... any
---@return perilune.fiber
function perilune.fiber(f, ...) end

---@class perilune.fiber
local fiber = {}

---Waits for the fiber; any number of times.
---@param limit? number|perilune.limit seconds
---@return any ... its results; its error is raised; `nil, "timeout"`
function fiber:await(limit) end

---Cancels the fiber: its wait ends at once, a computation at its next call or loop iteration.
---@param why? string
---@return boolean pending false if it had ended or was cancelled
function fiber:cancel(why) end

---How far the fiber has come.
---@return "pending"|"done"|"failed"|"cancelled"
function fiber:status() end

---The name that reports call it by.
---@return string?
---@overload fun(self: perilune.fiber, name: string): perilune.fiber
function fiber:name() end

---Calls `f(...)`; when the time is over, it and what it has started are cancelled.
---@param seconds number
---@param f fun(...: any): ...
---@param ... any
---@return any ... what `f` has returned, or `nil, "timeout"`
function perilune.timeout(seconds, f, ...) end

---Calls `f(...)`, which a cancellation of the caller lets finish.
---@param f fun(...: any): ...
---@param ... any
---@return any ...
function perilune.shield(f, ...) end

---Whatever else can run in the domain runs first, once.
function perilune.yield() end

---Runs functions in fibers, and waits for them; fibers and tasks are waited for as well. After the first error the others are cancelled.
---@param list (function|perilune.fiber|perilune.task)[]
---@return any ... the first result of each
function perilune.all(list) end

---Waits for the first that ends, and cancels the others.
---@param list (function|perilune.fiber|perilune.task)[]
---@return integer index
---@return any ... its results; its error is raised
function perilune.race(list) end

---`f(v, k, ...)` of each element of a table, in fibers of this domain.
---@param list table
---@param options? { limit?: integer } how many at once
---@param f fun(v: any, k: any, ...: any): any
---@param ... any
---@return table results by the same keys
---@overload fun(list: table, f: fun(v: any, k: any, ...: any): any, ...: any): table
function perilune.each(list, options, f, ...) end

---Waits for the first of several things. Of several that are ready the first is taken.
---@param cases table channels, to receive; `{channel, value...}`, to send; tasks; fibers; `pl.after(seconds)`; connections, which are ready when a read would not wait, and `{connection, "write"}`; listeners, which are accepted from; sockets for datagrams, received from; watches of `fs.watch`; processes, for their ends; `timeout` in seconds (0: do not wait)
---@return integer? case nil at a timeout
---@return any ... what `recv`, `await`, `accept` or `wait` would return; nothing of a connection
function perilune.select(cases) end

---Permits that all domains share.
---@param n integer
---@return perilune.semaphore
function perilune.semaphore(n) end

---A fiber as `perilune fibers` shows it.
---@class perilune.seen_fiber
---@field domain string the name of its domain
---@field name string its name, its function (`main.lua:12`), or `the main program`
---@field state "runs"|"ready"|"waits"|"blocked" `ready`: it could run, and others do; `blocked`: it is in a call that sleeps in the kernel
---@field age number since it was made, in seconds
---@field stack string[] where it is, the innermost function first, as in a traceback
---@field waits? string what it waits for: `waits to read from connection 127.0.0.1:80 -> 127.0.0.1:41234`
---@field place? string the line that waits
---@field waited? number for how long it has, in seconds
---@field left? number how long it waits at most from now on, in seconds

---The fibers that have not ended, of the calling domain, of another one or of all domains of the program, domain by domain and the oldest first: for a page of a service about itself, or a log when
---something hangs. Another domain answers at its next call or loop iteration, and goes on; the caller waits for it. `perilune fibers --attach` shows the same from outside.
---@param options? { domain?: perilune.domain|"all", timeout?: number } timeout: how many seconds others are waited for, 2 if it is not said
---@return perilune.seen_fiber[] fibers
---@return string[]? missing with options: the names of domains that have not answered in time, since they are in native code or in a call of the system that nothing ends
function perilune.fibers(options) end

---@class perilune.semaphore
local semaphore = {}

---Waits for a permit.
---@param limit? number|perilune.limit seconds
---@return true?
---@return "timeout"? why
function semaphore:acquire(limit) end

---Takes a permit if there is one now.
---@return boolean acquired
function semaphore:try_acquire() end

---Gives a permit back; whoever has waited longest gets it.
function semaphore:release() end

---How many permits nobody has.
---@return integer # permits that nobody has
function semaphore:free() end

---`f(...)` with a permit.
---@param f fun(...: any): ...
---@param ... any
---@return any ...
function semaphore:with(f, ...) end

---A permit for a to-be-closed variable.
---@param limit? number|perilune.limit seconds
---@return any permit nil at a timeout
---@return "timeout"? why
function semaphore:permit(limit) end

---@class perilune.iolib
local iolib = {}

---How the kernel tells this program that sockets and pipes are ready; before the first of them, how it would. `PERILUNE_IO=uring` in the environment asks for `io_uring` ([sockets](../io.md#what-it-costs-and-what-is-not-there)).
---@return "epoll"|"uring"|nil backend `nil`: a host without descriptors runs the program
function iolib.backend() end

-- Domains ----------------------------------------------------------------------------------------

---@class perilune.domainlib
local domainlib = {}

---Runs a function in a domain of its own, in parallel.
---@param name string|{ name?: string, memory?: integer } a name for traces and messages; the bytes that the domain's heap may hold
---@param f fun(...: any): ...
---@param ... any arguments, copied
---@return perilune.domain
---@overload fun(f: fun(...: any): ..., ...: any): perilune.domain
function domainlib.spawn(name, f, ...) end

---The running domain.
---@return perilune.domain
function domainlib.self() end

---How many domains have not ended.
---@return integer
function domainlib.count() end

---@class perilune.domain
local domain = {}

---Waits for the domain's function.
---@param limit? number|perilune.limit seconds
---@return any ... all its results; its error is raised, with the other domain's traceback in it; `nil, "timeout"`
function domain:join(limit) end

---The name that the domain was given, or one made from its number.
---@return string
function domain:name() end

---The domain's number.
---@return integer # 1 is the main domain
function domain:id() end

---Whether the domain still runs.
---@return "running"|"ended"
function domain:status() end

-- Pools ------------------------------------------------------------------------------------------

---@class perilune.poollib
local poollib = {}

---A pool of domains. They are made when they are needed.
---@param options? { workers?: integer, name?: string } workers: by default the cores that the process may use
---@return perilune.pool
function poollib.new(options) end

---The program's common pool.
---@return perilune.pool
function poollib.default() end

---@class perilune.pool
local pool = {}

---Queues a call. With options first, of a priority: `"high"` before others, `"low"` when there is nothing else; nobody starves.
---@param f fun(...: any): ...
---@param ... any arguments, copied
---@return perilune.task
---@overload fun(self: perilune.pool, options: { priority?: "high"|"normal"|"low" }, f: (fun(...: any): ...), ...: any): perilune.task
function pool:async(f, ...) end

---A lane: tasks that run one after the other. The same name is the same lane; without one it is no other.
---@param name? any a number, string, boolean or shared object
---@return perilune.lane
function pool:lane(name) end

---Calls `f(i)` for all `i` from `lo` to `hi`, in any order, and waits for all of them. The error of the lowest index that failed is raised; after the first nothing new begins.
---@param lo integer
---@param hi integer
---@param f fun(i: integer, ...: any)
---@param options? { chunk?: integer, timeout?: number } without a chunk the loop divides itself; when its seconds are over it is stopped
---@param ... any handed to each call, frozen
---@return true? done nil and `"timeout"` if the time was over
---@return "timeout"? reason
function pool:parallel_for(lo, hi, f, options, ...) end

---`combine(... combine(init, f(lo)) ..., f(hi))`, with parts combined in parallel, in order: `combine` must be associative, and need not commute.
---@generic T
---@param lo integer
---@param hi integer
---@param init T used once
---@param f fun(i: integer, ...: any): T
---@param combine fun(a: T, b: T): T
---@param options? { chunk?: integer, timeout?: number }
---@param ... any handed to each call of `f`, frozen
---@return T? # nil and `"timeout"` if the time was over
function pool:parallel_reduce(lo, hi, init, f, combine, options, ...) end

---The inclusive prefixes of a list or an array.
---@generic T
---@param list T[]|perilune.array
---@param op fun(a: T, b: T, ...: any): T associative
---@param options? { chunk?: integer, timeout?: number }
---@param ... any handed to each call, frozen
---@return T[]|perilune.array|nil # an array if `list` is one; nil and `"timeout"` if the time was over
function pool:parallel_scan(list, op, options, ...) end

---The lowest index for which `f` returns a true value, and that value. Indices above what has been found are not looked at.
---@param lo integer
---@param hi integer
---@param f fun(i: integer, ...: any): any
---@param options? { chunk?: integer, timeout?: number }
---@param ... any handed to each call, frozen
---@return integer? index nil and `"timeout"` if the time was over
---@return any found
function pool:parallel_find(lo, hi, f, options, ...) end

---`f(v, i, ...)` of each element, in order; of a dictionary `f(v, k, ...)`, by the same keys. Elements that take long are spread by themselves.
---@param list table|perilune.array
---@param f fun(v: any, k: any, ...: any): any
---@param options? { chunk?: integer, into?: perilune.array, timeout?: number } `chunk`: so many elements stay together; `into`: where the results go
---@param ... any handed to each call, frozen
---@return table|perilune.array|nil # `into`, if it is given; nil and `"timeout"` if the time was over
function pool:map(list, f, options, ...) end

---Sorts in place. The elements stay the same ones; `lt` sees copies of them.
---@param list any[]|perilune.array
---@param lt? fun(a: any, b: any): boolean
---@param options? { timeout?: number }
---@return true? done nil and `"timeout"` if the time was over: then nothing has been moved
---@return "timeout"? reason
function pool:sort(list, lt, options) end

---How many domains the pool may have.
---@return integer
function pool:workers() end

---Refuses new work, and waits until all there is has been done. A variable `local pool <close>` does that at the end of its scope.
---@param limit? number|{ timeout?: number } seconds
---@return true? done
---@return "timeout"? reason
function pool:close(limit) end

---An actor in this pool: see `perilune.actor`.
---@param f fun(mailbox: perilune.channel, ...: any): ...
---@param ... any arguments, copied
---@return perilune.actor
function pool:actor(f, ...) end

---An actor in the default pool: a task that runs `f(mailbox, ...)`.
---@param f fun(mailbox: perilune.channel, ...: any): ...
---@param ... any arguments, copied
---@return perilune.actor
function perilune.actor(f, ...) end

---@class perilune.actor
---@operator len: integer
local actor = {}

---Sends a message, copied. Never waits; an error if the actor has ended.
---@param ... any
---@return true
function actor:send(...) end

---No more messages are taken; the actor still gets those that were sent.
---@return boolean first
function actor:close() end

---Waits for the actor's end.
---@param limit? number|perilune.limit seconds
---@return any ... what its function returns; its error is raised; `nil, "timeout"`
function actor:await(limit) end

---@return perilune.task
function actor:task() end

---A row of tasks in a pool, of which one runs at a time.
---@class perilune.lane
---@operator len: integer
local lane = {}

---A task that begins when all that the lane was given before have ended.
---@param f fun(...: any): ...
---@param ... any arguments, copied
---@return perilune.task
function lane:async(f, ...) end

---@class perilune.task
local task = {}

---Waits for the task; any number of times, from any domain.
---@param limit? number|perilune.limit seconds
---@return any ... all results of its function; its error is raised; `nil, "timeout"`
function task:await(limit) end

---Stops the task at its next call, loop iteration or wait.
---@return boolean pending false if it had ended
function task:cancel() end

---How far the task has come.
---@return "pending"|"done"|"failed"|"cancelled"
function task:status() end

-- Channels ---------------------------------------------------------------------------------------

---@class perilune.channellib
local channellib = {}

---A channel.
---@param capacity? integer messages that wait in it at most; 0: senders wait for receivers; none: as many as there is memory for
---@param name? string for messages
---@return perilune.channel
function channellib.new(capacity, name) end

---The same as `perilune.select`.
---@param cases table
---@return integer? case nil at a timeout
---@return any ... what `recv` would return
function channellib.select(cases) end

---`for v in channel do` receives until it is closed and empty.
---@class perilune.channel
---@operator call: any
---@operator len: integer
local channel = {}

---Sends a message of any number of values, copied. Waits while there is no room.
---@param ... any
---@return true
function channel:send(...) end

---Waits for a message.
---@param limit? number|perilune.limit seconds
---@return any ... its values; `nil, "closed"` when the channel is closed and empty; `nil, "timeout"`
function channel:recv(limit) end

---Sends if there is room now.
---@param ... any
---@return boolean sent
---@return "full"|"closed"? why
function channel:try_send(...) end

---Receives if there is a message now.
---@return boolean received
---@return any ... the values, or "empty", or "closed"
function channel:try_recv() end

---As `send`, for so long at most.
---@param seconds number
---@param ... any
---@return true?
---@return "timeout"? why
function channel:send_timeout(seconds, ...) end

---As `recv`, for so long at most.
---@param seconds number
---@return any ... as `recv`, or `nil, "timeout"`
function channel:recv_timeout(seconds) end

---No more messages are taken; those in it can still be received.
---@return boolean first
function channel:close() end

---Whether it has been closed.
---@return boolean
function channel:is_closed() end

-- Shared data ------------------------------------------------------------------------------------

---@alias perilune.element "f64"|"f32"|"i64"|"i32"|"u8"

---An array that all domains see: of numbers, of strings (`"string"`), or of records, whose fields a table names with their kinds. `a[i]`, `#a`, `ipairs(a)`, `pairs(a)`
---and what of `table` keeps the length (`concat`, `unpack`, `sort`, `move`) work.
---@param kind perilune.element
---@param n integer|number[]|number[][] its length or rows, or its elements, or those of each row
---@param columns? integer in two dimensions
---@return perilune.array
---@overload fun(kind: "string", n: integer|string[]): perilune.strings
---@overload fun(fields: table<string, perilune.element|"string">, n: integer|table[], columns?: integer): perilune.records
function perilune.array(kind, n, columns) end

---@class perilune.array
---@field [integer] number
---@operator len: integer
local array = {}

---The element in row `i` and column `j`.
---@param i integer
---@param j integer
---@return number
function array:at(i, j) end

---Stores the element in row `i` and column `j`.
---@param i integer
---@param j integer
---@param v number
function array:put(i, j, v) end

---Row `i` of an array in two dimensions: a slice of it.
---@param i integer
---@return perilune.array
function array:row(i) end

---Rows and columns; in one dimension, the length.
---@return integer
---@return integer? columns
function array:size() end

---The same memory in other rows.
---@param rows integer
---@param columns integer
---@return perilune.array
function array:reshape(rows, columns) end

---The kind of its elements.
---@return perilune.element
function array:kind() end

---A view of a part of the same memory.
---@param i? integer
---@param j? integer
---@return perilune.array
function array:slice(i, j) end

---Stores `x` in all elements, or in those from `i` to `j`.
---@param x number
---@param i? integer
---@param j? integer
---@return perilune.array self
function array:fill(x, i, j) end

---Copies elements of another array, or of a list, into this one.
---@param source perilune.array|number[]
---@param at? integer where the first element goes
---@param i? integer
---@param j? integer
---@return perilune.array self
function array:copy(source, at, i, j) end

---A list of the elements, or of those from `i` to `j`; of all in two dimensions, a list of rows.
---@param i? integer
---@param j? integer
---@return number[]|number[][]
function array:totable(i, j) end

---The sum of the elements, or of those from `i` to `j`.
---@param i? integer
---@param j? integer
---@return number
function array:sum(i, j) end

---Adds to an element, losing no other domain's update.
---@param i integer
---@param x number
---@return number new
function array:add(i, x) end

---Stores `new` if the element is `old`.
---@param i integer
---@param old number
---@param new number
---@return boolean done
---@return number before
function array:cas(i, old, new) end

---An array of strings that all domains see.
---@class perilune.strings
---@field [integer] string
---@operator len: integer
local strings = {}

---@return "string"
function strings:kind() end

---How many there are.
---@return integer
function strings:size() end

---Stores `s` in all elements.
---@param s string
---@return perilune.strings self
function strings:fill(s) end

---A list of the elements.
---@return string[]
function strings:totable() end

---An array of records that all domains see: `a.x` is the array of the field `x` of all, `a[i].x` the field of one. A row `a[i]` is a place, not a copy, and does not go to
---another domain.
---@class perilune.records
---@field [integer] table
---@field [string] perilune.array|perilune.strings
---@operator len: integer
local records = {}

---What `a.name` is.
---@param name string
---@return perilune.array|perilune.strings
function records:column(name) end

---The kinds of the fields, by name.
---@return table<string, perilune.element|"string">
function records:fields() end

---A copy of record `i`.
---@param i integer
---@return table
function records:get(i) end

---Stores those fields of record `i` that `t` has.
---@param i integer
---@param t table
function records:set(i, t) end

---A list of copies of all.
---@return table[]
function records:totable() end

---@return "record"
function records:kind() end

---A value that domains change without losing updates. Made from an integer it holds integers, else any value that all domains can have.
---@param v? any 0 by default
---@return perilune.atomic
function perilune.atomic(v) end

---A value for each domain: a cache, a buffer, a connection. `make` crosses as a task's function does, and is called where a domain asks for its value
---the first time.
---@generic T
---@param make fun(): T makes the value of the domain that calls it; not nil
---@return perilune.perdomain
function perilune.per_domain(make) end

---@class perilune.perdomain
local perdomain = {}

---This domain's value, made at the first call.
---@return any
function perdomain:get() end

---@class perilune.atomic
local atomic = {}

---The value.
---@return any
function atomic:load() end

---Replaces the value.
---@param v any
function atomic:store(v) end

---Replaces the value, and returns the one before.
---@param v any
---@return any before
function atomic:exchange(v) end

---Adds a number.
---@param n? number 1 by default
---@return number new
function atomic:add(n) end

---Subtracts a number.
---@param n? number 1 by default
---@return number new
function atomic:sub(n) end

---Replaces the value by `n` if that is smaller.
---@param n number
---@return number new
function atomic:min(n) end

---Replaces the value by `n` if that is larger.
---@param n number
---@return number new
function atomic:max(n) end

---Stores `new` if the value is `old`.
---@param old any
---@param new any
---@return boolean done
---@return any before
function atomic:cas(old, new) end

---Replaces the value `v` by `f(v)`; `f` is called again if another domain has changed it meanwhile.
---@param f fun(v: any): any
---@return any new
function atomic:update(f) end

---A map of values that all domains can have.
---@param options? { ttl?: number } for how many seconds an entry lasts if nothing else is said; without it, for ever
---@return perilune.map
function perilune.map(options) end

---@class perilune.map
---@operator len: integer
local map = {}

---The value of a key; nil if there is none.
---@param k any
---@return any
function map:get(k) end

---Whether a key has a value.
---@param k any
---@return boolean
function map:has(k) end

---Sets the value of a key.
---@param k any
---@param v any nil removes
---@param options? { ttl?: number|false } for how many seconds it lasts; false: for ever
---@return any before
function map:set(k, v, options) end

---For how many seconds an entry still lasts; nil if it lasts for ever or is not there.
---@param k any
---@return number?
function map:ttl(k) end

---Begins an entry's time anew, without changing its value.
---@param k any
---@param ttl? number|false seconds, by default those of the map; false: for ever
---@return boolean is_there
function map:touch(k, ttl) end

---The same map, indexed as a table is: `v[k]`, `v.name = x`, `#v`, `pairs(v)`. A view is a shared object, too.
---@return table
function map:view() end

---Adds to a number; an absent one counts as 0.
---@param k any
---@param n? number 1 by default
---@return number new
function map:add(k, n) end

---Sets the value of a key to `new` if it is `old`.
---@param k any
---@param old any nil: absent
---@param new any
---@return boolean done
---@return any before
function map:cas(k, old, new) end

---Replaces the value `v` of a key by `f(v)`; `f` is called again if another domain has changed it meanwhile.
---@param k any
---@param f fun(v: any): any
---@return any new
function map:update(k, f) end

---A list of the keys, in no order.
---@return any[]
function map:keys() end

---An iterator over keys and values, in no order, as `pairs(map)`.
---@return fun(): any, any
function map:pairs() end

---Removes all keys.
function map:clear() end

-- Seeing (../tracing.md) ------------------------------------------------------------------------

---What a program says about itself while it is traced. While it is not, each of these costs a test.
---@class perilune.tracelib
local tracelib = {}

---A moment.
---@param name string
function tracelib.mark(name) end

---@class perilune.span
local span = {}

---Ends the span, unless it has ended.
function span:close() end

---A span, until the value is closed (`local s <close> = pl.trace.span("parse")`); with a function, calls `f(...)` within a span.
---@param name string
---@param f fun(...: any): ...
---@param ... any
---@return any ... the results of `f`
---@overload fun(name: string): perilune.span
function tracelib.span(name, f, ...) end

---A number that holds until the next one of this name.
---@param name string
---@param value number
function tracelib.counter(name, value) end

---A text: the values as `tostring` gives them, joined by tabs. Of more than 4 KiB the beginning.
---@param ... any
function tracelib.log(...) end

---Whether anything is traced: for what is costly to find out only for `log`.
---@return boolean
function tracelib.is_on() end

---@class perilune.tracing
---@field file string the file to make, for events; `%p` stands for the process's number
---@field events? string categories joined by commas, such as "gc,task" or "default,-wait"; absent: the default
---@field ring? integer events that each domain's ring holds: 256 to 16777216 (65536)
---@field cpu? integer samples of processor time per second of it, 1 to 20000; absent: none
---@field alloc? integer bytes between two samples of allocation, on average; absent: none

---Begins a session. An error if there is one already, or the file exists.
---@param options perilune.tracing
function tracelib.start(options) end

---Ends the session; the file stays.
function tracelib.stop() end

---Writes what the rings of all domains hold now, their last moments, to a recording.
---@param file string `%p` stands for the process's number
---@return boolean written false if nothing is traced
function tracelib.snapshot(file) end

---Writes what is alive in this domain's heap, for `perilune heap`. Needs no session.
---@param file string `%p` stands for the process's number
function tracelib.heap(file) end

return perilune
