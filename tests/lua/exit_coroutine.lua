-- exit: 42
-- os.exit from inside nested coroutines, pcalls and callbacks.
coroutine.wrap(function() pcall(function() ("x"):gsub("x", function() coroutine.wrap(function() print "deep"; os.exit(42) end)() end) end) end)()
print "never"
