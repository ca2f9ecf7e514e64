-- warn goes to standard error and never to standard output; its arguments are checked.
warn("@on"); warn("visible on stderr"); warn("in ", "pieces"); warn("@off"); warn("not shown"); warn("@unknown"); warn("@on", "not a control message"); print(pcall(warn)); print(pcall(warn, 5)); print(pcall(warn, {})); print(pcall(warn, "a", nil)); print(select("#", warn("x"))); print "done"
