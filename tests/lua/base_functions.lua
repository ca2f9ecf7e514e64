-- Basic functions: results and messages that do not depend on where the script is.
local function msg(f, ...)
  local ok, e = pcall(f, ...)
  print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ ")))
end

print(select("#"), select("#", nil, nil), select(2, "a", "b", "c"))
print(select(-1, 1, 2, 3), select(-2, 1, 2, 3), select(5, 1, 2))
msg(select, 0, 1) msg(select, -3, 1) msg(select) msg(select, "x")

print(tonumber("0x10"), tonumber("  12  "), tonumber("1e1"), tonumber("0x1p4"), tonumber("1e"), tonumber(""))
print(tonumber("10", 2), tonumber("zZ", 36), tonumber(" -7f ", 16), tonumber("8", 8), tonumber("1 1", 10), tonumber("", 10))
print(tonumber("7fffffffffffffff", 16), tonumber("ffffffffffffffff", 16), tonumber("1" .. string.rep("0", 64), 2))
print(tonumber(nil), tonumber({}), tonumber(print), tonumber("nan"), tonumber("inf"), tonumber("0x"), tonumber("1\0"))
msg(tonumber) msg(tonumber, "1", 1) msg(tonumber, "1", 37) msg(tonumber, 1, 10) msg(tonumber, "1", 2.5)

print(type(nil), type(1), type("x"), type({}), type(print), type(function() end), type(true), type(coroutine.create(print)), type(io.stdout))
msg(type)
print(tostring(nil), tostring(true), tostring(-0.0), tostring(1e15), tostring(2^63), tostring("x"))
msg(tostring)
print(tostring(setmetatable({}, {__tostring = function() return "custom" end})))
msg(tostring, setmetatable({}, {__tostring = function() return {} end}))
print((tostring(setmetatable({}, {__name = "My Type"})):gsub("0x%x+", "ADDR")))

print(rawequal("a", "a"), rawequal({}, {}), rawequal(1, 1.0), rawlen({1, 2}), rawlen("abc"))
msg(rawequal, 1) msg(rawlen, 1) msg(rawget, 1, 2) msg(rawget, {}) msg(rawset, {}, 1) msg(rawset, {}, nil, 1) msg(rawset, {}, 0/0, 1)
print(rawget(setmetatable({}, {__index = function() return 1 end}), "x"))
do
  local t = setmetatable({}, {__newindex = error})
  print(rawset(t, "k", "v") == t, t.k)
end

print(getmetatable("").__index == string, getmetatable({}), getmetatable(setmetatable({}, {__metatable = "locked"})))
msg(setmetatable, setmetatable({}, {__metatable = 1}), {})
msg(setmetatable, {}) msg(setmetatable, 1, {}) msg(setmetatable, {}, 1) msg(getmetatable)

print(next({}), next({10}), next({10}, 1), next({a = 1}))
msg(next, {}, "nope") msg(next)
print(pcall(pairs)) print(pcall(ipairs))
do
  local t = setmetatable({}, {__pairs = function(t) return function(_, k) k = (k or 0) + 1 if k <= 3 then return k, k * k end end, t, nil, "ignored" end})
  for k, v in pairs(t) do io.write(k, "=", v, " ") end
  print(select("#", pairs(t)))
  local proxy = setmetatable({}, {__index = function(_, i) if i <= 4 then return i * 10 end end})
  for i, v in ipairs(proxy) do io.write(i, ":", v, " ") end
  print()
end

print(assert(1, 2, 3)) msg(assert, false) msg(assert, nil, "message") msg(assert) msg(assert, false, {1} and 7)
print(select(2, pcall(error))) print(select(2, pcall(error, nil))) print(select(2, pcall(error, {} and 5)))
local function level1() error("L1", 1) end
local function level2() error("L2", 2) end
local function level0() error("L0", 0) end
print((select(2, pcall(level1)):gsub("^.-(:%d+:)", "%1")))
print((select(2, pcall(function() level2() end)):gsub("^.-(:%d+:)", "%1")))
print(select(2, pcall(level0)))

print(pcall(pcall)) print(pcall(pcall, error, "e")) print(xpcall(error, function(e) return "<" .. e .. ">" end, "inner"))
msg(xpcall) msg(xpcall, print) print(xpcall(function(...) return select("#", ...), ... end, print, 1, nil, 3))
print(_VERSION, _G._G == _G)

-- collectgarbage: what can be said without counting bytes
print(collectgarbage(), collectgarbage("collect"), type(collectgarbage("count")), collectgarbage("isrunning"))
print(collectgarbage("stop"), collectgarbage("isrunning"), collectgarbage("restart"), collectgarbage("isrunning"))
collectgarbage("incremental")
print(collectgarbage("generational"), collectgarbage("incremental"), collectgarbage("incremental", 100, 200, 10))
collectgarbage("setpause", 160) print(collectgarbage("setpause", 200), (collectgarbage("setpause", 200)))
msg(collectgarbage, "nonsense") msg(collectgarbage, 1)
