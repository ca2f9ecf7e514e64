-- A command that has stopped to read is an error for who writes to it, also in the middle of a write: no signal ends the program.
-- stress: no
local p = io.popen("head -c 10 > /dev/null", "w")
local ok, message = p:write(("x"):rep(1 << 20))
print(ok, message)
print(p:close())
require "perilune"
local p = io.popen("head -c 10 > /dev/null", "w")
local ok, message = p:write(("x"):rep(1 << 20))
print(ok, message)
print(p:close())
