---@meta perilune.tty
-- What `require "perilune.tty"` returns, for lua-language-server. The guide is in ../tty.md.

-- Terminals (../tty.md) ----------------------------------------------------------------------------

---Terminals: their size, and raw mode.
---@class perilune.tty
local tty = {}

---Whether a file is a terminal.
---@param file? file* standard input
---@return boolean
function tty.is_terminal(file) end

---How large a terminal is. `signal.on("WINCH")` tells when that changes.
---@param file? file* standard output
---@return integer? columns
---@return integer|string lines or a message
---@return perilune.net.code? code
function tty.size(file) end

---@class perilune.tty.raw_options
---@field signals? boolean Ctrl-C and other keys send their signals still (false)

---Makes a terminal raw: keys come one by one, at once, as they are, and are not shown. It is restored by `raw:restore()`, at the end of `local raw <close>`, and at the end of the program, whether that is regular, an error or a signal.
---@param file? file* standard input
---@param options? perilune.tty.raw_options
---@return perilune.tty.raw? raw
---@return string? message
---@return perilune.net.code? code `"ENOTTY"`: it is no terminal; `"busy"`: another one is raw
function tty.raw(file, options) end

---The raw mode of a terminal, or a part of it.
---@class perilune.tty.raw
local raw = {}

---Ends it. The terminal is what it was when all parts have ended.
---@return boolean? ended false if that was done before
---@return string? message
---@return perilune.net.code? code
function raw:restore() end
