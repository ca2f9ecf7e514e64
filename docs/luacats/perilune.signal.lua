---@meta perilune.signal
-- What `require "perilune.signal"` returns, for lua-language-server. The guide is in ../signal.md.

-- Signals (../signal.md) ---------------------------------------------------------------------------

---Signals as messages of channels.
---@class perilune.signal
local signal = {}

---A channel that gets the names of these signals, such as `"TERM"`, when they come. It holds 16 messages; more are dropped. When no channel for a signal is open any more, the signal does what it did before.
---@param name string|integer `"TERM"`, `"SIGTERM"` or 15
---@param ... string|integer more of them
---@return perilune.channel? channel
---@return string? message
---@return perilune.net.code? code
function signal.on(name, ...) end
