-- File handles in other domains: the stream is one, each domain has a handle of its own.
local pl = require "perilune"
local name = os.tmpname()
local f = assert(io.open(name, "w+"))
f:write("from main\n")
pl.domain.spawn(function() f:write("from a domain\n") end):join()
print(pl.domain.spawn(function(f) f:seek("set") return f:read("l"), f:read("l"), io.type(f) end, f):join())
local opened = pl.domain.spawn(function(name) return io.open(name) end, name):join()
f:flush()
for line in opened:lines() do io.write("[", line, "] ") end
print(io.type(opened))
opened:close()
print(io.type(opened), io.type(f))
-- a message is a handle too
local c = pl.channel.new()
c:send(f)
local g = c:recv()
print(io.type(f), io.type(g), g:seek("set"), g:read("l"))
g:close()
print(pcall(function() return pl.domain.spawn(function(f) return io.type(f) end, f):join() end))
print(pl.domain.spawn(function() io.stdout:write("standard output\n") io.stdout:flush() return io.type(io.stdout) end):join())
local p = io.popen("echo through a pipe")
print(pl.domain.spawn(function() return p:read("l") end):join())
os.remove(name)
