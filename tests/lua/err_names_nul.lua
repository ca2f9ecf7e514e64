-- Names in messages end where a C string would.
local t = {}
print(pcall(function() t["a\0b"]() end))
print(pcall(function() return t["a\0b"].x end))
print(pcall(function() return t["a\0b"] + 1 end))
print(pcall(function() local s = "k\0l"; return t[s]() end))
print(pcall(function() return _ENV["g\0h"]() end))
print(pcall(function() return ("a\0b")() end))
print(pcall(function() return ("a\0b").x.y end))
print(pcall(function() local x <const> = "c\0d"; return x + {} end))
print(pcall(function() return 1 < "c\0d" end))
print(pcall(function() return math["\0sin"](1) end))
print(pcall(error, "msg\0more"))
t["f\0g"] = function() return debug.getinfo(1, "n").name end
local name = t["f\0g"]()
print(name)
