-- One site, `__index` and `__newindex` as functions: what the site has learned must not outlive its reason.
local log = {}
local function note(...) log[#log + 1] = table.concat({ ... }, " ") end
local mt = {
  __index = function(t, k) return "f1 " .. k end,
  __newindex = function(t, k, v) note("set1", k, tostring(v)) end,
}
local function read(t) return t.x end
local function write(t, v) t.x = v end
local a = setmetatable({}, mt)
for _ = 1, 3 do print(read(a)); write(a, 1) end
-- another function in the same place
mt.__index = function(t, k) return "f2 " .. k end
mt.__newindex = function(t, k, v) note("set2", k, tostring(v)) end
print(read(a)); write(a, 2)
-- a table, a native, nothing
mt.__index = { x = "from a table" }
local sink = {}
mt.__newindex = sink
print(read(a)); write(a, 3); print(sink.x, rawget(a, "x"))
mt.__index = rawget
mt.__newindex = rawset
print(read(a)); write(a, 4); print(rawget(a, "x"), read(a))
a.x = nil
mt.__index, mt.__newindex = nil, nil
print(read(a)); write(a, 5); print(read(a))
-- another metatable of the same shape, and the same shape without one
local b = setmetatable({}, { __index = function() return "b" end, __newindex = function(_, k, v) note("setb", k, v) end })
local c = {}
local d = setmetatable({}, { __index = function() return "d" end, __newindex = function(_, k, v) note("setd", k, v) end })
for _ = 1, 3 do
  print(read(b), read(c), read(d)); write(b, 6); write(d, 7)
end
write(c, 8)
print(read(c), rawget(b, "x"), rawget(d, "x"))
-- the field appears by other ways
rawset(b, "x", "own")
print(read(b)); write(b, "mine"); print(read(b))
setmetatable(d, nil)
print(read(d)); write(d, 9); print(read(d))
-- the metatable grows, becomes a dictionary, loses and regains the metamethod
local e, emt = {}, { __index = function(_, k) return "e " .. k end }
setmetatable(e, emt)
print(read(e), read(e))
for i = 1, 100 do emt["extra" .. i] = i end
print(read(e), read(e))
emt.__index = nil; print(read(e))
emt.__index = function() return "back" end; print(read(e))
-- errors and yields come from inside
local f = setmetatable({}, {
  __index = function(_, k) error("no " .. k, 2) end,
  __newindex = function(_, k, v) coroutine.yield(k, v) end,
})
for _ = 1, 2 do
  print(pcall(read, f))
  local co = coroutine.wrap(function() write(f, "y"); return "written" end)
  print(co()); print(co())
end
-- vararg metamethods, several results, deep recursion
local g = setmetatable({}, { __index = function(...) return select("#", ...), "dropped" end })
print(read(g), (read(g)))
local deep = setmetatable({}, { __index = function(t, k) return read(t) end })
print(select(2, pcall(read, deep)):match("stack overflow"))
-- a metatable that dies and another that takes its place
for i = 1, 200 do
  local t = setmetatable({}, { __index = function() return i end })
  assert(read(t) == i)
  if i % 20 == 0 then collectgarbage() end
end
-- method calls
local h = setmetatable({}, { __index = function(t, k) return function(self, x) return k .. x, self == t end end })
local function call(o) return o:go(1) end
for _ = 1, 3 do print(call(h)) end
print(table.concat(log, "; "))
