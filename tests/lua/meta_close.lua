-- To-be-closed variables: order, errors, every way out of a block.
local log = {}
local function c(name, err) return setmetatable({ name = name }, { __close = function(self, e) log[#log + 1] = name .. "(" .. tostring(e) .. ")"; if err then error(err, 0) end end }) end
local function flush() print("  " .. table.concat(log, " ")); log = {} end
do local a <close> = c "a"; local b <close> = c "b"; log[#log + 1] = "body" end flush()
local function ret() local x <close> = c "x"; return "r1", "r2", #log end print(ret()); flush()
local function tail() local x <close> = c "x"; return ret() end print(tail()); flush()
for i = 1, 3 do local v <close> = c("v" .. i); if i == 2 then break end end flush()
print(pcall(function() local p <close> = c "p"; local q <close> = c "q"; error("boom", 0) end)); flush()
print(pcall(function() local p <close> = c("p", "from p"); local q <close> = c("q", "from q"); error("boom", 0) end)); flush()
print(pcall(function() local p <close> = c("p", "only p"); local q <close> = c "q" end)); flush()
do local n <close> = nil; local f <close> = false end
print(pcall(function() local bad <close> = {} end)); print(pcall(function() local bad <close> = 5 end)); print(pcall(function() local ok <close> = c "ok"; local bad <close> = "str" end)); flush()
print(pcall(function() local t <close> = setmetatable({}, { __close = 5 }) end))
print(pcall(function() local t <close> = c "t"; getmetatable(t).__close = nil end))
-- while, repeat, nested functions, varargs
local i = 0; while i < 2 do i = i + 1; local w <close> = c("w" .. i) end flush()
i = 0; repeat i = i + 1; local r <close> = c("r" .. i) until i >= 2 flush()
local function va(...) local x <close> = c "x"; return ... end print(va(1, nil, 3)); flush(); print(select("#", va(nil, nil))); flush()
-- generic for with a closing value
local function iter(n, name) local k = 0; return function() k = k + 1; if k <= n then return k end end, nil, nil, c(name) end
for k in iter(2, "normal") do io.write(k, " ") end flush()
for k in iter(5, "broken") do io.write(k, " "); if k == 2 then break end end flush()
print(pcall(function() for k in iter(5, "failed") do if k == 2 then error("in loop", 0) end end end)); flush()
print((function() for k in iter(5, "returned") do if k == 3 then return k end end end)()); flush()
for k in iter(2, "outer") do for j in iter(2, "inner" .. k) do if j == 1 and k == 1 then goto next end end ::next:: end flush()
print(pcall(function() for k in next, {}, nil, 5 do end end))
print(pcall(function() for k in next, {}, nil, {} do end end))
-- the value may be changed in its metatable; the metamethod gets value and error
do local m = setmetatable({}, {}); getmetatable(m).__close = function(...) log[#log + 1] = "first" .. select("#", ...) end; local x <close> = m; getmetatable(m).__close = function(o, e) log[#log + 1] = "second" .. tostring(o == m) .. tostring(e) end end flush()
-- errors while handling an error keep the last one
print(pcall(function() local a <close> = c "a"; local b <close> = c("b", "b err"); local d <close> = c "d"; local e <close> = c("e", "e err"); error "first" end)); flush()
-- error objects
local eo = setmetatable({}, { __tostring = function() return "object" end })
print(select(2, pcall(function() local a <close> = c "a"; error(eo) end)) == eo); flush()
-- in coroutines
local co = coroutine.wrap(function() local a <close> = c "a"; local b <close> = setmetatable({}, { __close = function() log[#log + 1] = "y" .. coroutine.yield("yielded in close") end }); coroutine.yield "in body"; return "end" end)
print(co()); print(co()); print(co(7)); flush()
local co2 = coroutine.create(function() local a <close> = c "a"; local b <close> = c "b"; coroutine.yield(1) end)
coroutine.resume(co2); print(coroutine.close(co2), coroutine.status(co2)); flush()
local co3 = coroutine.create(function() local a <close> = c("a", "close error"); coroutine.yield(1) end)
coroutine.resume(co3); print(coroutine.close(co3)); print(coroutine.status(co3), coroutine.close(co3)); flush()
local co4 = coroutine.create(function() local a <close> = c "a"; error("inside", 0) end)
print(coroutine.resume(co4)); print(coroutine.status(co4), coroutine.close(co4)); flush()
local co5 = coroutine.wrap(function() local a <close> = c("a", "2nd"); error("1st", 0) end); print(pcall(co5)); flush()
-- yield in a for loop's closing value when breaking out
local co6 = coroutine.wrap(function() for k in (function() return 1 end), nil, nil, setmetatable({}, { __close = function() coroutine.yield "closing" end }) do break end return "after" end)
print(co6(), co6())
-- closing does not disturb return values
local function many() local x <close> = setmetatable({}, { __close = function() local a, b, c2, d = 10, 20, 30, 40; return a, b, c2, d end }); return 1, 2, 3, 4, 5 end print(many())
local function nested() local a <close> = c "a"; return (function() local b <close> = c "b"; return "deep", #log end)() end print(nested()); flush()
-- a close metamethod that itself has closes
local function ch(n) return setmetatable({}, { __close = function() if n > 0 then local x <close> = ch(n - 1); log[#log + 1] = "n" .. n end end }) end
do local x <close> = ch(3) end flush()
-- const next to close
do local k <const> = 42; local x <close> = c("k" .. k); print(k) end flush()
-- goto out and in
do local n = 0 ::top:: do local g <close> = c("g" .. n); n = n + 1; if n < 3 then goto top end end end flush()
-- with pcall inside close
do local x <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = tostring(select(2, pcall(error, "inner", 0))) .. tostring(e) end }) end flush()
-- upvalue capture of a to-be-closed variable
local captured; do local x <close> = c "x"; captured = function() return x.name end end print(captured()); flush()
-- stack of 100
do local function rec(n) local x <close> = setmetatable({}, { __close = function() log[#log + 1] = n end }); if n > 1 then rec(n - 1) end end rec(100); print(#log, log[1], log[100]); log = {} end
-- error with traceback handler sees the error before closing
print(xpcall(function() local a <close> = c "a"; error("E", 0) end, function(m) log[#log + 1] = "handler"; return m .. "!" end)); flush()
