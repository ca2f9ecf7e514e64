-- stress: no
-- Finalisers: order, resurrection, errors, arguments, at exit.
local function full() collectgarbage(); collectgarbage() end
local log = {}
local function flush() print(table.concat(log, " ")); log = {} end
local function g(name) return setmetatable({ name = name }, { __gc = function(o) log[#log + 1] = o.name end }) end
-- reverse order of marking
do for i = 1, 5 do g("o" .. i) end end full(); flush()
-- a reachable object is not finalised
local keep = g "keep"; full(); flush()
keep = nil; full(); flush()
full(); flush()
-- __gc must be in the metatable when it is set
do local mt = {}; local x = setmetatable({}, mt); mt.__gc = function() log[#log + 1] = "late" end; x = nil end full(); flush()
do local mt = { __gc = true }; local x = setmetatable({}, mt); mt.__gc = function() log[#log + 1] = "replaced" end; x = nil end full(); flush()
-- resurrection
local saved
do local r = setmetatable({ v = "alive" }, { __gc = function(o) saved = o; log[#log + 1] = "resurrected" end }) end
full(); flush(); print(saved.v); saved = nil; full(); flush()
do local n = 0; local r = setmetatable({}, { __gc = function(o) n = n + 1; log[#log + 1] = "again" .. n; if n < 3 then setmetatable(o, getmetatable(o)) end end }) end
for i = 1, 5 do full() end flush()
-- cycles
do local a, b = g "cycA", g "cycB"; a.other = b; b.other = a end full(); table.sort(log); flush()
-- the finaliser may use what the object refers to
do local inner = { "inner value" }; setmetatable({ inner = inner }, { __gc = function(o) log[#log + 1] = o.inner[1] end }) end full(); flush()
-- objects created in a finaliser
do setmetatable({}, { __gc = function() g "child"; log[#log + 1] = "parent" end }) end full(); full(); flush()
-- errors in finalisers become warnings, not errors
do setmetatable({}, { __gc = function() error "ignored" end }) end
print(pcall(collectgarbage)); full()
-- a table used as a key, with a finaliser that is reachable only through a weak table
local weak = setmetatable({}, { __mode = "k" })
do weak[g "key"] = "value" end
full(); flush(); print(next(weak))
local wv = setmetatable({}, { __mode = "v" })
do wv[1] = g "val" end
full(); flush(); print(wv[1], #wv)
-- weak keys are kept until the finaliser has run; weak values are cleared before
do
  local k = setmetatable({}, { __mode = "k" }); local v = setmetatable({}, { __mode = "v" })
  do local o = setmetatable({}, { __gc = function(o) log[#log + 1] = tostring(k[o]) .. tostring(v[1]) end }); k[o] = "seen"; v[1] = o end
  full(); flush()
end
-- in a coroutine that is collected
do local co = coroutine.wrap(function() local x = g "in coroutine"; coroutine.yield(); print(x) end); co(); co = nil end full(); full(); flush()
-- through a closure's upvalue
do local u = g "upvalue"; local f = function() return u end; f = nil end full(); flush()
-- gc of many
local n = 0
do for i = 1, 1000 do setmetatable({}, { __gc = function() n = n + 1 end }) end end full(); print(n)
-- finalisers called with an argument that still has its metatable
do setmetatable({}, { __gc = function(o) log[#log + 1] = tostring(getmetatable(o).__gc ~= nil) end }) end full(); flush()
-- an object with both __close and __gc
do do local x <close> = setmetatable({}, { __close = function() log[#log + 1] = "close" end, __gc = function() log[#log + 1] = "gc" end }) end full() end full(); flush()
-- yield is not possible in a finaliser; error is swallowed
local co = coroutine.wrap(function() do setmetatable({}, { __gc = function() log[#log + 1] = tostring(pcall(coroutine.yield)) end }) end full(); full(); return "done" end) print(co()); flush()
-- incremental steps do the work as well
do for i = 1, 3 do g("step" .. i) end end collectgarbage "incremental"; repeat until collectgarbage("step", 1000); full(); flush()
-- at exit, in reverse order of creation
exitlog = {}
local function atexit(name) return setmetatable({}, { __gc = function() print("exit", name) end }) end
e1, e2, e3 = atexit "first", atexit "second", atexit "third"
