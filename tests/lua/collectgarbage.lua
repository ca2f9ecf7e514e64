-- The options of collectgarbage and the memory it reports.
print(type(collectgarbage "count"), math.type(collectgarbage "count"), collectgarbage "count" > 0)
print(collectgarbage(), collectgarbage "collect")
print(collectgarbage "isrunning", collectgarbage "stop", collectgarbage "isrunning", collectgarbage "restart", collectgarbage "isrunning")
collectgarbage "incremental"
print(collectgarbage "generational", collectgarbage "incremental", collectgarbage "incremental", collectgarbage "generational", collectgarbage "incremental")
print(pcall(collectgarbage, "nonsense")); print(pcall(collectgarbage, 5)); print(pcall(collectgarbage, {}))
print(type(collectgarbage "step"), type(collectgarbage("step", 0)), type(collectgarbage("step", 100)))
local n = 0; repeat n = n + 1 until collectgarbage("step", 1000) or n > 1000000; print(n <= 1000000)
local p = collectgarbage("setpause", 160); print(type(p), collectgarbage("setpause", p)); local m = collectgarbage("setstepmul", 200); print(type(m), collectgarbage("setstepmul", m))
print(pcall(collectgarbage, "incremental", 200, 100, 13)); print(pcall(collectgarbage, "generational", 20, 100)); print(collectgarbage "incremental")
-- garbage goes away
local before = collectgarbage "count"
do local t = {}; for i = 1, 100000 do t[i] = { i } end end
local filled = collectgarbage "count"; collectgarbage(); local after = collectgarbage "count"
print(filled > before, after < filled, after < before + 500)
-- memory held is counted: 100000 elements of a table need more than 400 KiB
local hold = {}; for i = 1, 100000 do hold[i] = i end; collectgarbage(); print(collectgarbage "count" - after > 400); hold = nil; collectgarbage()
local s = ("x"):rep(1 << 20); print(collectgarbage "count" - after > 1000); s = nil; collectgarbage(); print(collectgarbage "count" - after < 500)
-- with the collector running, a loop that makes garbage stays small
collectgarbage "restart"
for _, mode in ipairs { "incremental", "generational" } do
  collectgarbage(mode); local peak = 0
  for i = 1, 200000 do local x = { i, {} }; if i % 1000 == 0 then peak = math.max(peak, collectgarbage "count") end end
  print(mode, peak < 60000)
  for i = 1, 2000 do local x = ("y"):rep(10000) .. i; if i % 100 == 0 then peak = math.max(peak, collectgarbage "count") end end
  print(mode, peak < 60000)
  for i = 1, 20000 do local f = load("return t.k" .. i); if i % 100 == 0 then peak = math.max(peak, collectgarbage "count") end end
  print(mode, peak < 60000)
  for i = 1, 20000 do local co = coroutine.wrap(function() coroutine.yield(i) end); co(); if i % 100 == 0 then peak = math.max(peak, collectgarbage "count") end end
  print(mode, peak < 60000)
end
collectgarbage "incremental"
-- stopped: nothing is collected; explicit calls still work
collectgarbage "stop"; local w = setmetatable({ {} }, { __mode = "v" }); for i = 1, 10000 do local x = {} end; print(w[1] ~= nil); collectgarbage(); print(w[1]); collectgarbage "restart"
-- linked structures survive
local list; for i = 1, 10000 do list = { i, list } end collectgarbage(); local c, sum = 0, 0; while list do c = c + 1; sum = sum + list[1]; list = list[2] end print(c, sum)
local tree; local function mk(d) if d == 0 then return { 1 } end return { mk(d - 1), mk(d - 1) } end; local function cnt(t) if type(t[1]) == "number" then return 1 end return cnt(t[1]) + cnt(t[2]) end
tree = mk(12); collectgarbage(); print(cnt(tree)); tree[1] = mk(3); collectgarbage "step"; print(cnt(tree))
-- old objects that point to new ones
local old = {}; collectgarbage(); collectgarbage(); for i = 1, 1000 do old[i] = { "v" .. i }; old["k" .. i] = { i } end collectgarbage "step"; collectgarbage(); local ok = true; for i = 1, 1000 do ok = ok and old[i][1] == "v" .. i and old["k" .. i][1] == i end print(ok)
local function upv() local v = {}; return function(x) v = x end, function() return v end end
local set, get = upv(); collectgarbage(); collectgarbage(); set { "fresh" }; collectgarbage "step"; collectgarbage(); print(get()[1])
local co = coroutine.wrap(function(a) while true do local b = { a }; a = coroutine.yield(b); collectgarbage "step"; print(b[1]) end end)
co "one"; collectgarbage(); co "two"; collectgarbage(); co "three"
local meta = setmetatable({}, { __index = {} }); collectgarbage(); collectgarbage(); getmetatable(meta).__index = { late = { "late value" } }; collectgarbage(); print(meta.late[1])
