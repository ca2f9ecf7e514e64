-- exit: 0
-- os.exit(true, true) closes the state: pending to-be-closed variables and finalisers run.
local c <close> = setmetatable({}, { __close = function(_, e) print("closed", e) end })
keep = setmetatable({}, { __gc = function() print "collected" end })
print "exiting"
os.exit(true, true)
