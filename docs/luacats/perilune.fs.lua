---@meta perilune.fs
-- What `require "perilune.fs"` returns, for lua-language-server. The guide is in ../fs.md.

-- Files (../fs.md) ---------------------------------------------------------------------------------

---Files by their names. Waiting for a disk stops the fiber only. What fails without anybody's mistake returns `nil, message, code`.
---@class perilune.fs
local fs = {}

---@class perilune.fs.write_options
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

---Reads a file, all of it.
---@param path string
---@param limit? integer bytes (67108864); a longer file is a failure, `"limit"`
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
---@param options? { follow?: boolean } false: of a symbolic link itself (true)
---@return perilune.fs.facts? facts
---@return string? message
---@return perilune.net.code? code `"ENOENT"`: there is none
function fs.stat(path, options) end

---The names in a directory, sorted by their bytes, without `.` and `..`.
---@param path string
---@return string[]? names
---@return string? message
---@return perilune.net.code? code
function fs.dir(path) end

---Makes a directory.
---@param path string
---@param options? { parents?: boolean } with those above it; one that is there is no failure
---@return true? made
---@return string? message
---@return perilune.net.code? code
function fs.mkdir(path, options) end

---Gives a file another name, and replaces the one that has it. Both names have to be in one file system.
---@param from string
---@param to string
---@return true? renamed
---@return string? message
---@return perilune.net.code? code
function fs.rename(from, to) end

---Removes a file, a link or an empty directory.
---@param path string
---@param options? { recursive?: boolean } a directory with everything in it
---@return true? removed
---@return string? message
---@return perilune.net.code? code
function fs.remove(path, options) end

---Waits until what was written to a file, or the names in a directory, are on the disk.
---@param path string
---@return true? done
---@return string? message
---@return perilune.net.code? code
function fs.sync(path) end

---Makes an empty file with a name of its own, which only this user can read and write. The program removes it.
---@param folder? string instead of the system's for temporary files
---@return string? name
---@return string? message
---@return perilune.net.code? code
function fs.temporary(folder) end
