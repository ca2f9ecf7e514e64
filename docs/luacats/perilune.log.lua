---@meta perilune.log
-- What `require "perilune.log"` returns, for lua-language-server. The guide is in ../log.md.

---Records with levels and fields, as lines of text or JSON, to standard error or a file. They are events, too.
---@class perilune.log
local log = {}

---@alias perilune.log.level "debug"|"info"|"warn"|"error"|"off"

---@class perilune.log.settings
---@field level? perilune.log.level the least that is written ("info")
---@field format? "text"|"json" ("text")
---@field file? string|false appended to; false: standard error
---@field limit? integer|false records a second of each message of each logger

---Writes a record of the level `debug`.
---@param message string
---@param fields? table<string, any>
function log.debug(message, fields) end

---Writes a record of the level `info`.
---@param message string
---@param fields? table<string, any>
function log.info(message, fields) end

---Writes a record of the level `warn`.
---@param message string
---@param fields? table<string, any>
function log.warn(message, fields) end

---Writes a record of the level `error`.
---@param message string
---@param fields? table<string, any>
function log.error(message, fields) end

---Whether records of this level are written.
---@param level perilune.log.level
---@return boolean
function log.is_on(level) end

---The program's level until now; with an argument, sets it.
---@param level? perilune.log.level
---@return perilune.log.level before
function log.level(level) end

---Where records go and how, for the whole program.
---@param settings perilune.log.settings
---@return boolean? set
---@return string? message
---@return perilune.net.code? code
function log.set(settings) end

---A logger: a name, and fields that each of its records has. It may go to other domains.
---@param name string
---@param fields? table<string, any>
---@return perilune.log.logger
function log.new(name, fields) end

---@class perilune.log.logger
local logger = {}

---Writes a record of the level `debug`.
---@param message string
---@param fields? table<string, any>
function logger:debug(message, fields) end

---Writes a record of the level `info`.
---@param message string
---@param fields? table<string, any>
function logger:info(message, fields) end

---Writes a record of the level `warn`.
---@param message string
---@param fields? table<string, any>
function logger:warn(message, fields) end

---Writes a record of the level `error`.
---@param message string
---@param fields? table<string, any>
function logger:error(message, fields) end

---Whether the logger's records of this level are written.
---@param level perilune.log.level
---@return boolean
function logger:is_on(level) end

---The logger's own level until now, nil if it has none; with an argument, sets it.
---@param level? perilune.log.level|false false: that of the program
---@return perilune.log.level? before
function logger:level(level) end

---A logger with more fields.
---@param fields table<string, any>
---@return perilune.log.logger
function logger:with(fields) end
