-- exit: 1
-- An error that nothing catches: output before it is kept, finalisers run, exit code 1.
keep = setmetatable({}, { __gc = function() print "collected at exit" end })
print "before"
local function fails() error { code = 3 } end
fails()
print "never"
