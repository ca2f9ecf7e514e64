---@meta
-- What `?name` says of the functions of Lua's standard library. Each comment is a summary; the reference manual's section is added by help.rs.

-- Basic functions -----------------------------------------------------------------------------------

---Raises an error if `v` is nil or false, otherwise returns all its arguments.
---@param message? any the error value ("assertion failed!")
function assert(v, message, ...) end

---Controls the garbage collector.
---@param opt? "collect"|"stop"|"restart"|"count"|"step"|"isrunning"|"incremental"|"generational" ("collect")
function collectgarbage(opt, arg) end

---Runs a file as a chunk and returns what that returns.
---@param filename? string (standard input)
function dofile(filename) end

---Raises an error. It does not return.
---@param message any the error value; a string gets a position
---@param level? integer whose position: 1 the caller of `error`, 2 the caller of that, 0 none (1)
function error(message, level) end

---The metatable of a value, or what its field `__metatable` holds.
---@return any metatable nil: there is none
function getmetatable(object) end

---For `for i, v in ipairs(t) do`: t[1], t[2], up to the first that is nil.
function ipairs(t) end

---Compiles a chunk and returns it as a function; nil and a message if it is none.
---@param chunk string|fun(): string? its text, or a function that returns pieces of it
---@param chunkname? string for messages ("=(load)")
---@param mode? "b"|"t"|"bt" whether it may be binary, a text, or both ("bt")
---@param env? any the first upvalue, which is the environment (the globals)
function load(chunk, chunkname, mode, env) end

---Like `load`, from a file.
---@param filename? string (standard input)
function loadfile(filename, mode, env) end

---The next key of a table after `index`, and its value; nil after the last. The order is any.
---@param index? any nil: the first
function next(table, index) end

---For `for k, v in pairs(t) do`: all keys and values, or what the metamethod `__pairs` gives.
function pairs(t) end

---Calls f in protected mode: true and its results, or false and the error value.
function pcall(f, ...) end

---Writes its arguments to standard output as `tostring` shows them, with tabs between them and a newline.
function print(...) end

---Whether two values are the same, without metamethods.
function rawequal(v1, v2) end

---t[index] without metamethods.
function rawget(table, index) end

---The length of a table or string, without metamethods.
function rawlen(v) end

---table[index] = value without metamethods. Returns the table.
function rawset(table, index, value) end

---Loads a module, once, and returns its value and where it was found.
---@param modname string
function require(modname) end

---All arguments after number n; negative numbers count from the end. `"#"`: how many there are.
---@param n integer|"#"
function select(n, ...) end

---Sets the metatable of a table, and returns the table.
---@param metatable table? nil removes it
function setmetatable(table, metatable) end

---A value as a number, or nil.
---@param base? integer 2 to 36, of a string that is an integer
function tonumber(e, base) end

---A value as a string for people, by `__tostring` or `__name` if there is one.
function tostring(v) end

---The name of a value's type: "nil", "number", "string", "boolean", "table", "function", "thread", "userdata".
function type(v) end

---Emits a warning made of its arguments. `"@on"` and `"@off"` switch them.
function warn(msg1, ...) end

---Like `pcall`, with a message handler, which is called where the error is raised.
function xpcall(f, msgh, ...) end

-- Coroutines ----------------------------------------------------------------------------------------

---Closes a suspended or dead coroutine, with its to-be-closed variables: true, or false and an error.
function coroutine.close(co) end

---A new coroutine, which runs f when it is resumed.
function coroutine.create(f) end

---Whether the coroutine (the running one) can yield.
function coroutine.isyieldable(co) end

---Starts or continues a coroutine: true and what it yields or returns, or false and the error.
function coroutine.resume(co, ...) end

---The running coroutine, and whether it is the main one.
function coroutine.running() end

---"running", "suspended", "normal" or "dead".
function coroutine.status(co) end

---A function that resumes a new coroutine each time it is called. Errors are raised.
function coroutine.wrap(f) end

---Suspends the running coroutine; the arguments are what `resume` returns.
function coroutine.yield(...) end

-- Modules -------------------------------------------------------------------------------------------

---Answers that dynamic libraries are not enabled: C modules cannot be loaded.
function package.loadlib(libname, funcname) end

---Looks for a name in a path of templates: the file that was found, or nil and what was tried.
---@param sep? string in the name (".")
---@param rep? string what it becomes (the system's separator of folders)
function package.searchpath(name, path, sep, rep) end

-- Strings -------------------------------------------------------------------------------------------

---The codes of the bytes s[i] to s[j].
---@param i? integer (1)
---@param j? integer (i)
function string.byte(s, i, j) end

---A string of the bytes with these codes.
function string.char(...) end

---A function as a binary chunk for `load`.
---@param strip? boolean without debug information
function string.dump(f, strip) end

---Looks for a pattern (section 6.4.1): where it begins and ends, and its captures; or nil.
---@param init? integer where the search begins (1)
---@param plain? boolean it is a plain text, no pattern
function string.find(s, pattern, init, plain) end

---Formats its arguments as C's `printf` does.
---@param formatstring string `%d` `%i` `%u` integers, `%x` `%X` `%o` in other bases, `%f` `%e` `%g` `%a` floats, `%s` `tostring`, `%q` as Lua reads it, `%c` a byte, `%p` an address, `%%` a percent sign; flags, width and precision between
function string.format(formatstring, ...) end

---For `for ... in s:gmatch(pattern) do`: the captures of each match, or the whole match.
---@param init? integer where the search begins (1)
function string.gmatch(s, pattern, init) end

---A copy of s in which matches of a pattern (section 6.4.1) are replaced, and how many.
---@param repl string|table|function a text in which %1 is a capture and %0 the match; a table or function of the first capture, whose nil or false keeps the match
---@param n? integer replacements at most
function string.gsub(s, pattern, repl, n) end

---The number of bytes.
function string.len(s) end

---In lower case.
function string.lower(s) end

---The captures of the first match of a pattern (section 6.4.1), or the whole match; or nil.
---@param init? integer where the search begins (1)
function string.match(s, pattern, init) end

---Values as bytes, by a format (section 6.4.2).
function string.pack(fmt, ...) end

---How many bytes `pack` makes by a format that has no strings.
function string.packsize(fmt) end

---s, n times, with sep between.
---@param sep? string ("")
function string.rep(s, n, sep) end

---The bytes from the last to the first.
function string.reverse(s) end

---The bytes i to j; negative numbers count from the end.
---@param j? integer (-1)
function string.sub(s, i, j) end

---The values in bytes that `pack` has made by the format, and where the next byte is.
---@param pos? integer where they begin (1)
function string.unpack(fmt, s, pos) end

---In upper case.
function string.upper(s) end

-- UTF-8 ---------------------------------------------------------------------------------------------

---The characters with these code points as a string.
function utf8.char(...) end

---The code points of the characters that begin at bytes i to j.
---@param i? integer (1)
---@param j? integer (i)
---@param lax? boolean up to 2^31 and without a check for surrogates
function utf8.codepoint(s, i, j, lax) end

---For `for p, c in utf8.codes(s) do`: the place and the code point of each character.
function utf8.codes(s, lax) end

---How many characters begin at bytes i to j; or nil and where the first byte is that is none.
---@param i? integer (1)
---@param j? integer (-1)
function utf8.len(s, i, j, lax) end

---The byte at which character n, counted from byte i, begins.
---@param i? integer (1, or behind the end if n is negative)
function utf8.offset(s, n, i) end

-- Tables --------------------------------------------------------------------------------------------

---Strings and numbers of a list as one string.
---@param sep? string between them ("")
---@param i? integer the first (1)
---@param j? integer the last (#list)
function table.concat(list, sep, i, j) end

---Inserts an element at pos, and moves the others up; without pos, at the end.
function table.insert(list, pos, value) end

---Copies a1[f..e] to a2[t..], and returns a2.
---@param a2? table (a1)
function table.move(a1, f, e, t, a2) end

---A table with the arguments, whose field `n` says how many.
function table.pack(...) end

---Removes the element at pos, which it returns, and moves the others down.
---@param pos? integer (#list)
function table.remove(list, pos) end

---Sorts a list in place; not stable.
---@param comp? fun(a, b): boolean a comes before b (`<`)
function table.sort(list, comp) end

---list[i], list[i+1], ..., list[j].
---@param i? integer (1)
---@param j? integer (#list)
function table.unpack(list, i, j) end

-- Mathematics ---------------------------------------------------------------------------------------

---Without the sign.
function math.abs(x) end

---The arc cosine, in radians.
function math.acos(x) end

---The arc sine, in radians.
function math.asin(x) end

---The arc tangent of y/x, in radians, in the right quadrant.
---@param x? number (1)
function math.atan(y, x) end

---The least integer that is not less than x.
function math.ceil(x) end

---The cosine of x radians.
function math.cos(x) end

---The hyperbolic cosine. Deprecated since Lua 5.3.
function math.cosh(x) end

---Radians in degrees.
function math.deg(x) end

---e to the power of x.
function math.exp(x) end

---The greatest integer that is not greater than x.
function math.floor(x) end

---The remainder of x/y whose quotient is rounded towards zero.
function math.fmod(x, y) end

---m and e, so that x is m times 2^e, and m at least a half and below one, or 0. Deprecated since Lua 5.3.
function math.frexp(x) end

---m times 2^e. Deprecated since Lua 5.3.
function math.ldexp(m, e) end

---The logarithm.
---@param base? number (e)
function math.log(x, base) end

---The logarithm to the base 10. Deprecated since Lua 5.3: math.log(x, 10).
function math.log10(x) end

---The greatest of its arguments.
function math.max(x, ...) end

---The least of its arguments.
function math.min(x, ...) end

---The part before the point, and that behind it.
function math.modf(x) end

---x to the power of y, a float. Deprecated since Lua 5.3: x ^ y.
function math.pow(x, y) end

---Degrees in radians.
function math.rad(x) end

---A random float from 0 to less than 1; with m, an integer from 1 to m; with m and n, one from m to n; with 0, one with all bits random.
function math.random(m, n) end

---Begins another sequence of random numbers; without arguments one that cannot be foreseen. Returns the two parts of the seed.
function math.randomseed(x, y) end

---The sine of x radians.
function math.sin(x) end

---The hyperbolic sine. Deprecated since Lua 5.3.
function math.sinh(x) end

---The square root.
function math.sqrt(x) end

---The tangent of x radians.
function math.tan(x) end

---The hyperbolic tangent. Deprecated since Lua 5.3.
function math.tanh(x) end

---x as an integer, if it is one; otherwise nil.
function math.tointeger(x) end

---"integer", "float", or nil if x is no number.
function math.type(x) end

---Whether integer m is below integer n, as unsigned numbers.
function math.ult(m, n) end

-- Input and output ----------------------------------------------------------------------------------

---Closes a file (the default output).
function io.close(file) end

---Writes what the default output has buffered.
function io.flush() end

---The default input; with a file or a name, makes that the default.
function io.input(file) end

---For `for line in io.lines(name) do`: reads a file by formats, as `file:read` does, and closes it at the end.
---@param filename? string (the default input, which stays open)
---@param ... string|integer formats ("l")
function io.lines(filename, ...) end

---Opens a file: a file, or nil, a message and a number.
---@param mode? "r"|"w"|"a"|"r+"|"w+"|"a+" and "b" behind it ("r")
function io.open(filename, mode) end

---The default output; with a file or a name, makes that the default.
function io.output(file) end

---Starts a command, and gives a file to read what it writes, or to write what it reads.
---@param mode? "r"|"w" ("r")
function io.popen(prog, mode) end

---`io.input():read(...)`.
---@param ... "n"|"a"|"l"|"L"|integer (`"l"`)
function io.read(...) end

---A temporary file, open for both directions, which is removed at the end.
function io.tmpfile() end

---"file", "closed file", or nil if it is no file.
function io.type(obj) end

---`io.output():write(...)`.
function io.write(...) end

---Closes the file; of a command, also how it has ended.
function file:close() end

---Writes what is buffered.
function file:flush() end

---For `for line in f:lines() do`: reads by formats, and leaves the file open.
---@param ... string|integer formats ("l")
function file:lines(...) end

---Reads by formats: nil at the end.
---@param ... "n"|"a"|"l"|"L"|integer a number, all, a line without its end, a line with it, so many bytes (`"l"`)
function file:read(...) end

---Moves the position, and returns it.
---@param whence? "set"|"cur"|"end" from where ("cur")
---@param offset? integer (0)
function file:seek(whence, offset) end

---How the file is buffered.
---@param mode "no"|"full"|"line"
function file:setvbuf(mode, size) end

---Writes strings and numbers, and returns the file; or nil, a message and a number.
function file:write(...) end

-- The system ----------------------------------------------------------------------------------------

---Processor time that the program has used, in seconds.
function os.clock() end

---A time as a text by a format of C's `strftime`, or as a table by `"*t"`; `!` before it: in UTC.
---@param format? string ("%c")
---@param time? integer (now)
function os.date(format, time) end

---Seconds from t1 to t2.
function os.difftime(t2, t1) end

---Has the shell run a command: true or nil, "exit" or "signal", and a number. Without one: whether there is a shell.
function os.execute(command) end

---Ends the program.
---@param code? boolean|integer (true)
---@param close? boolean closes the state before
function os.exit(code, close) end

---An environment variable, or nil.
function os.getenv(varname) end

---Removes a file or an empty directory: true, or nil, a message and a number.
function os.remove(filename) end

---Renames a file: true, or nil, a message and a number.
function os.rename(oldname, newname) end

---The locale; sets it if one is given.
---@param category? "all"|"collate"|"ctype"|"monetary"|"numeric"|"time" ("all")
function os.setlocale(locale, category) end

---The time now, or the one that a table with year, month, day and the like says, in seconds.
function os.time(table) end

---A name for a temporary file.
function os.tmpname() end

-- Debugging -----------------------------------------------------------------------------------------

---Reads lines from standard input and runs them, until one is `cont`.
function debug.debug() end

---The hook of a thread: the function, its mask, its count.
function debug.gethook(thread) end

---What is known of a function, or of the one that is active at a level.
---@param what? string which fields: "S", "l", "u", "t", "f", "n", "r", "L" (all but "L")
function debug.getinfo(thread, f, what) end

---Name and value of local variable number `n` of the function at a level; of a function, the name of a parameter.
function debug.getlocal(thread, f, n) end

---The metatable of a value, whatever its field `__metatable` says.
function debug.getmetatable(value) end

---The registry.
function debug.getregistry() end

---Name and value of a function's upvalue number `up`.
function debug.getupvalue(f, up) end

---User value number n of a userdata, and whether it has that.
---@param n? integer (1)
function debug.getuservalue(u, n) end

---Has a function called at calls ("c"), returns ("r"), lines ("l"), or every so many instructions.
function debug.sethook(thread, hook, mask, count) end

---Sets a local variable of the function at a level. Returns its name.
function debug.setlocal(thread, level, n, value) end

---Sets the metatable of any value, and returns the value.
function debug.setmetatable(value, table) end

---Sets an upvalue of a function. Returns its name.
function debug.setupvalue(f, up, value) end

---Sets user value number n of a userdata.
---@param n? integer (1)
function debug.setuservalue(udata, value, n) end

---Does nothing that programs should rely on.
function debug.setcstacklimit(limit) end

---A message with a traceback behind it.
---@param message? any returned as it is if it is neither a string nor nil
---@param level? integer where the traceback begins (1)
function debug.traceback(thread, message, level) end

---What identifies an upvalue: two closures that share one have the same.
function debug.upvalueid(f, n) end

---Makes upvalue n1 of f1 refer to upvalue n2 of f2.
function debug.upvaluejoin(f1, n1, f2, n2) end
