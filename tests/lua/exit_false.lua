-- exit: 1
print "failure"
os.exit(false)
