---@meta perilune.text
-- What `require "perilune.text"` returns, for lua-language-server. The guide is in ../text.md.

---Text that comes in pieces, in any encoding, with any separators.
---@class perilune.text
local text = {}

---@class perilune.text.options
---@field encoding? string a name of the WHATWG Encoding Standard, or "bytes" ("utf-8")
---@field separators? string|string[]|false what ends a piece ({"\n", "\r\n"})
---@field keep? boolean pieces have their separators with them
---@field bad? "error"|"replace" bytes that are not valid ("error")

---An iterator over the lines of a file; the file is closed at its end and when a loop is left.
---@param path string
---@param options? perilune.text.options
---@return fun(): string?
---@return nil
---@return nil
---@return userdata closes the file
function text.lines(path, options) end

---A decoder for bytes that come in pieces.
---@param options? perilune.text.options
---@return perilune.text.decoder
function text.decoder(options) end

---@class perilune.text.decoder
local decoder = {}

---Takes bytes; returns an iterator over the pieces that are complete then, or without separators the text that is valid.
---@param bytes string
---@return (fun(): string?)|string
function decoder:feed(bytes) end

---Says that no more comes; returns what is left.
---@return (fun(): string?)|string
function decoder:finish() end

return text
