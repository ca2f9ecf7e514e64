-- pl.trace: off, everything is quiet; a session of the program's own; what may go wrong.
local pl = require "perilune"
local trace = pl.trace

print(trace.is_on())
trace.mark("nobody sees this")
trace.counter("c", 1)
trace.log("nor this")
do local s <close> = trace.span("nor that") end
print(trace.span("call", function(a, b) return b, a end, 1, 2))
print(select("#", trace.span("none", function() end)))
print(pcall(trace.span, "fails", function() error("inside", 0) end))
local s = trace.span("twice")
s:close()
s:close()

print(pcall(trace.start))
print(pcall(trace.start, {}))
print(pcall(trace.start, {file = "/nonexistent/x"}))
print(pcall(trace.start, {file = "never made", events = "nothing"}))
print(pcall(trace.start, {file = "never made", ring = 1}))
print(pcall(trace.mark))
print(pcall(trace.snapshot, "/nonexistent/x"))

local name = os.tmpname()
os.remove(name)
trace.start{file = name, ring = 4096}
print(trace.is_on())
print((select(2, pcall(trace.start, {file = name .. ".2"})):gsub("'.-'", "'...'")))
print(pcall(trace.mark))
trace.mark("seen")
trace.counter("x", 1.5)
trace.log("a", 1, nil, true, setmetatable({}, {__tostring = function() return "me" end}))
trace.span("outer", function() local i <close> = trace.span("inner") end)
local pool = pl.pool.new{workers = 2}
local tasks = {}
for i = 1, 10 do tasks[i] = pool:async(function(i) pl.trace.mark("task " .. i) return i end, i) end
print(select("#", pl.await_all(tasks)))
pool:close()
local copy = os.tmpname()
print(trace.snapshot(copy))
trace.stop()
print(trace.is_on())
trace.stop()

-- Both files are there, and nobody else can read them.
for _, file in ipairs{name, copy} do
  local f = assert(io.open(file, "rb"))
  print(f:read(5))
  f:close()
  os.remove(file)
end

-- A second session.
trace.start{file = name, events = "user"}
trace.mark("again")
trace.stop()
os.remove(name)
