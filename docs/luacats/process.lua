---@meta perilune.process
-- What `require "perilune.process"` returns, for lua-language-server. The guide is in ../process.md.

-- Processes (../process.md) ------------------------------------------------------------------------

---Other programs: their input, their output, their ends. Waiting for them holds no thread.
---@class perilune.process
local process = {}

---@class perilune.process.options the program and its arguments as a list, and how it is started
---@field [integer] string|number
---@field cwd? string the directory that it runs in
---@field env? table<string, string|number|false> variables beside those of this program; `false` takes one away
---@field clear_env? boolean it has no variables but those of `env`
---@field group? boolean it leads a process group (true)
---@field stderr? "pipe"|"stdout"|"null"|"inherit"

---@class perilune.process.run_options: perilune.process.options
---@field stdin? string|true what it reads; true: the standard input of this program
---@field timeout? number|false seconds, after which it is killed
---@field limit? integer bytes that each output may have (67108864); more kill it

---@class perilune.process.spawn_options: perilune.process.options
---@field stdin? "pipe"|"null"|"inherit"
---@field stdout? "pipe"|"null"|"inherit"

---@class perilune.process.result
---@field code? integer what it has ended with
---@field signal? string the signal that has ended it, such as `"KILL"`
---@field stdout? string
---@field stderr? string

---Runs a program from its beginning to its end. If the wait ends early, the program is killed with all that it has started.
---@param options perilune.process.run_options
---@return perilune.process.result? result
---@return string? message
---@return perilune.net.code? code
function process.run(options) end

---Starts a program.
---@param options perilune.process.spawn_options
---@return perilune.process.handle? process
---@return string? message
---@return perilune.net.code? code
function process.spawn(options) end

---@class perilune.process.handle a program that runs, or has run; in a variable of the attribute `<close>` it is killed at the end of the scope
---@field pid integer
---@field stdin? perilune.net.connection
---@field stdout? perilune.net.connection
---@field stderr? perilune.net.connection
local handle = {}

---Waits for its end.
---@param limit? number|perilune.limit seconds
---@return { code?: integer, signal?: string }? result
---@return string? message
---@return perilune.net.code? code
function handle:wait(limit) end

---Sends a signal to it and to what it has started.
---@param signal? string|integer `"TERM"` if there is none
---@return true? sent
---@return string? message
---@return perilune.net.code? code `"ESRCH"`: it has ended
function handle:kill(signal) end
