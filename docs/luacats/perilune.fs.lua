---@meta perilune.fs
-- What `require "perilune.fs"` returns, for lua-language-server. The guide is in ../fs.md.

-- Files (../fs.md) ---------------------------------------------------------------------------------

---Files by their names. Waiting for a disk stops the fiber only. What fails without anybody's mistake returns `nil, message, code`.
---@class perilune.fs
local fs = {}

---@class perilune.fs.options
---@field timeout? number|false seconds that the operation may take

---@class perilune.fs.write_options : perilune.fs.options
---@field append? boolean the text goes behind what is there
---@field atomic? boolean readers find the old contents or the new ones, whole; excludes `append`
---@field sync? boolean returns when the text is on the disk

---@class perilune.fs.facts
---@field type "file"|"directory"|"link"|"socket"|"fifo"|"device"
---@field size integer bytes
---@field permissions integer such as 420, which is 644 in octal digits
---@field links integer names that the file has
---@field inode integer
---@field uid integer
---@field gid integer
---@field modified number seconds since 1970: its contents
---@field accessed number
---@field changed number its contents or what `stat` tells of it

---@class perilune.fs.read_options : perilune.fs.options
---@field limit? integer bytes (67108864); more are a failure, `"limit"`
---@field offset? integer where the part begins (0)
---@field length? integer bytes of the part at most; it may be shorter (up to the end)

---Reads a file, all of it or a part.
---@param path string
---@param limit? integer|perilune.fs.read_options bytes (67108864); a longer file is a failure, `"limit"`
---@return string? contents
---@return string? message
---@return perilune.net.code? code
function fs.read(path, limit) end

---Makes a file, or replaces what is in it.
---@param path string
---@param text string
---@param options? perilune.fs.write_options
---@return true? written
---@return string? message
---@return perilune.net.code? code
function fs.write(path, text, options) end

---What is known of a file.
---@param path string
---@param options? { follow?: boolean, timeout?: number|false } follow = false: of a symbolic link itself (true)
---@return perilune.fs.facts? facts
---@return string? message
---@return perilune.net.code? code `"ENOENT"`: there is none
function fs.stat(path, options) end

---The names in a directory, sorted by their bytes, without `.` and `..`.
---@param path string
---@param options? perilune.fs.options
---@return string[]? names
---@return string? message
---@return perilune.net.code? code
function fs.dir(path, options) end

---Makes a directory.
---@param path string
---@param options? { parents?: boolean, timeout?: number|false } parents: with those above it; one that is there is no failure
---@return true? made
---@return string? message
---@return perilune.net.code? code
function fs.mkdir(path, options) end

---Gives a file another name, and replaces the one that has it. Both names have to be in one file system.
---@param from string
---@param to string
---@param options? perilune.fs.options
---@return true? renamed
---@return string? message
---@return perilune.net.code? code
function fs.rename(from, to, options) end

---Removes a file, a link or an empty directory.
---@param path string
---@param options? { recursive?: boolean, timeout?: number|false } recursive: a directory with everything in it
---@return true? removed
---@return string? message
---@return perilune.net.code? code
function fs.remove(path, options) end

---Waits until what was written to a file, or the names in a directory, are on the disk.
---@param path string
---@param options? perilune.fs.options
---@return true? done
---@return string? message
---@return perilune.net.code? code
function fs.sync(path, options) end

---Makes an empty file with a name of its own, which only this user can read and write. The program removes it.
---@param folder? string instead of the system's for temporary files
---@param options? perilune.fs.options
---@return string? name
---@return string? message
---@return perilune.net.code? code
function fs.temporary(folder, options) end

---Opens a file, to be read and written in pieces.
---@param path string
---@param mode? string as of `io.open`: `"r"`, `"w"`, `"a"`, with `+` for both directions; `"wx"`: the file must not be there yet (`"r"`)
---@param options? perilune.fs.options
---@return perilune.fs.file? file
---@return string? message
---@return perilune.net.code? code
function fs.open(path, mode, options) end

---Tells of changes of a file, or of what is in a directory; not of what is in directories below. A file is watched by its name: it need not be there, and may be replaced.
---@param path string
---@param options? perilune.fs.options
---@return perilune.fs.watch? watch
---@return string? message
---@return perilune.net.code? code
function fs.watch(path, options) end

---@class perilune.fs.change
---@field kind "created"|"changed"|"written"|"removed"|"missed" `created`: made, or renamed to this name; `changed`: written to; `written`: closed after that; `removed`: removed, or renamed to another name; `missed`: there were more changes than the system keeps
---@field path string
---@field directory boolean it is a directory

---What tells of changes; called by `for change in watch do`, which ends when it is closed. One fiber waits at a time. `pl.select` takes it.
---@class perilune.fs.watch
local watch = {}

---The next change; waits for it.
---@param limit? number|perilune.limit seconds
---@return perilune.fs.change? change
---@return string? message
---@return perilune.net.code? code `"closed"` also after the directory itself was removed, which is the last change
function watch:recv(limit) end

---Ends it.
---@return boolean first false if it was closed
function watch:close() end

---An open file. It is closed by `close`, in a `local f <close>`, or when nobody has it any more. Any domain may use it.
---@class perilune.fs.file
local file = {}

---What there is at the position: n bytes, fewer at the end; nil behind it.
---@param n? integer (65536; 1048576 at most)
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function file:read(n) end

---The next line, without its end, which is LF or CRLF; nil at the end.
---@param limit? integer bytes (1048576)
---@return string? line
---@return string? message
---@return perilune.net.code? code
function file:read_line(limit) end

---Everything from the position to the end.
---@param limit? integer bytes (67108864)
---@return string? bytes
---@return string? message
---@return perilune.net.code? code
function file:read_all(limit) end

---What there is somewhere else. The position stays.
---@param offset integer
---@param n? integer bytes at most (65536)
---@return string? bytes nil: the file ends before
---@return string? message
---@return perilune.net.code? code
function file:read_at(offset, n) end

---An iterator over lines. What fails is an error.
---@param limit? integer bytes (1048576)
---@return fun(): string?
function file:lines(limit) end

---Writes at the position; with mode `"a"` at the end.
---@param ... string|number
---@return true? written
---@return string? message
---@return perilune.net.code? code
function file:write(...) end

---Writes somewhere else. The position stays.
---@param offset integer
---@param ... string|number
---@return true? written
---@return string? message
---@return perilune.net.code? code
function file:write_at(offset, ...) end

---Moves the position.
---@param whence? "set"|"cur"|"end" from where (`"cur"`)
---@param offset? integer (0)
---@return integer? position
---@return string? message
---@return perilune.net.code? code
function file:seek(whence, offset) end

---How many bytes the file has.
---@return integer? bytes
---@return string? message
---@return perilune.net.code? code
function file:size() end

---Makes the file shorter, or longer by zero bytes.
---@param size? integer (the position)
---@return true? done
---@return string? message
---@return perilune.net.code? code
function file:truncate(size) end

---Waits until what was written is on the disk.
---@return true? done
---@return string? message
---@return perilune.net.code? code
function file:sync() end

---Waits until this open file has the file's lock (`flock`): alone, or with others who share it.
---@param options? { shared?: boolean, timeout?: number } a timeout of 0 only looks
---@return true? locked
---@return string? message
---@return perilune.net.code? code
function file:lock(options) end

---Gives the lock back. So does `close`.
---@return true? unlocked
---@return string? message
---@return perilune.net.code? code
function file:unlock() end

---How long operations may take, in seconds; false: for ever, as at first. What was not done by then is `nil, "timeout", "timeout"`.
---@param settings { read_timeout?: number|false, write_timeout?: number|false } write_timeout: also for `sync` and `truncate`
---@return perilune.fs.file file
function file:set(settings) end

---Closes the file.
---@return boolean was_open
function file:close() end
