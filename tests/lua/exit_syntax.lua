-- exit: 1
print "never printed"
x = = 1
