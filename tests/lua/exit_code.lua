-- exit: 7
-- os.exit with a number; buffered output is written, pending closes are not run without `true`.
local c <close> = setmetatable({}, { __close = function() print "closed" end })
setmetatable({}, { __gc = function() print "collected" end })
io.write("no newline at the end")
os.exit(7)
