---@meta perilune.json
-- What `require "perilune.json"` returns, for lua-language-server. The guide is in ../json.md.

---JSON (RFC 8259).
---@class perilune.json
---@field null lightuserdata what stands for `null`, the same in every domain
---@field array_mt table the metatable that marks arrays
local json = {}

---@class perilune.json.decoding
---@field depth? integer arrays and objects within each other: 1 to 10000 (100)
---@field big_integers? "error"|"float" integers beyond 64 bits ("error")
---@field duplicates? "last"|"error" a name that an object has twice ("last")
---@field bad? "error"|"replace" what is not UTF-8, halves of surrogate pairs ("error")

---@class perilune.json.streaming: perilune.json.decoding
---@field items? boolean the text is one array, whose elements come one by one

---@class perilune.json.encoding
---@field pretty? boolean lines, indentation by two, sorted names
---@field indent? integer lines, and so many spaces for each level: 0 to 16
---@field sort? boolean names in the order of their bytes
---@field depth? integer tables within each other: 1 to 10000 (100)
---@field bad? "error"|"replace" strings that are not UTF-8 ("error")
---@field sharing? "copy"|"error" a table that is met twice ("copy"); cycles are always an error

---The value of a text. Raises an error with line, column and what was expected there.
---@param text string
---@param options? perilune.json.decoding
---@return any value
function json.decode(text, options) end

---The text of a value. Raises an error with the path to what JSON cannot express.
---@param value any
---@param options? perilune.json.encoding
---@return string text
function json.encode(value, options) end

---Marks a table as an array, which matters while it is empty.
---@generic T: table
---@param t? T absent: a new table
---@return T t
function json.array(t) end

---Would the value be written as an array?
---@param value any
---@return boolean
function json.is_array(value) end

---A decoder for a text that comes in pieces.
---@param options? perilune.json.streaming
---@return perilune.json.decoder
function json.decoder(options) end

---@class perilune.json.decoder
local decoder = {}

---Takes a piece; returns an iterator over the values that are complete then.
---@param piece string
---@return fun(): any
function decoder:feed(piece) end

---Says that the text is complete; returns an iterator over what is left. Raises an error if the text breaks off.
---@return fun(): any
function decoder:finish() end

---An iterator over the values of a text that follow one another.
---@param source string|fun(): string? the text, or what returns its pieces, then nil
---@param options? perilune.json.streaming
---@return fun(): any
function json.values(source, options) end

return json
