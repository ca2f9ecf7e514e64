-- A function that is too large to be compiled, called in all ways by a loop that is: between two pieces of machine
-- code the interpreter runs.
local text = { "local large large = function(i, f, ...) local s = 0 " }
for n = 2, 899 do text[n] = "\ns = s + i % " .. n end
text[#text + 1] = "\nif f then return f(s, i, ...) end return s end return large"
local large = load(table.concat(text), "=large")()
local function run(name, n, body)
  local s = 0
  for i = 1, n do
    for k = 1, 30 do s = (s + k * i) % 10007 end
    s = (s + body(i)) % 10007
  end
  print(name, s)
end
local N = 60
run("plain", N, function(i) local ok, v = pcall(large, i) return ok and v % 97 or 1 end)
run("errors", N, function(i) local ok, v = pcall(large, i, function(s, i) if i % 3 == 0 then error({s % 7}) end if i % 5 == 0 then error("text " .. i) end return s % 11 end) return ok and v or type(v) == "table" and v[1] or #v end)
run("varargs", N, function(i) local t = {pcall(large, i, function(s, i, ...) return s % 13, select("#", ...), ... end, i, nil, i)} return t[2] + t[3] + (t[6] or 0) end)
local mt = { __add = function(a, b) return large(b, function(s) return s % 31 end) end, __index = function(t, k) return large(k, function(s) return s % 29 end) end, __lt = function(a, b) return large(3) % 2 == 0 end, __concat = function(a, b) return "c" .. large(2) % 5 end, __call = function(self, i) return large(i, function(s) return s % 17 end) end }
local obj = setmetatable({}, mt)
run("metamethods", N, function(i) return (obj + i) + obj[i] + (obj < obj and 1 or 2) + #(obj .. "x") + obj(i) end)
local co = coroutine.wrap(function() local i = 0 while true do i = i + 1 coroutine.yield(large(i, function(s) coroutine.yield(s % 19) return s % 23 end)) end end)
run("coroutine", N, function(i) return co() end)
local resumed = coroutine.create(function(i) while true do i = large(i, function(s, i) local a = coroutine.yield(s % 5) local ok, b = pcall(coroutine.yield, s % 3) return a + b end) end end)
run("resumed", N, function(i) local ok, v = coroutine.resume(resumed, i) assert(ok, v) return type(v) == "number" and v or 1 end)
local count = 0
run("hooks", N, function(i) local ok, v = pcall(large, i, function(s, i) if i == 50 then debug.sethook(function() count = count + 1 end, "", 100) elseif i == 60 then debug.sethook() end return s % 7 end) return v end)
print("counted", count > 50)
local lines = 0
run("lines", N, function(i) local ok, v = pcall(large, i, function(s, i) if i == 50 then debug.sethook(function() lines = lines + 1 end, "l") elseif i == 52 then debug.sethook() end return s % 7 end) return v end)
print("lines", lines > 1800)
run("closing", N, function(i) local c = 0 local ok, v = pcall(large, i, function(s, i) local x <close> = setmetatable({}, { __close = function() c = c + large(i) % 5 end }) if i % 4 == 0 then error("e") end return s % 7 end) return c + (ok and v or 3) end)
run("setlocal", 40, function(i) local ok, v = pcall(large, i, function(s, i) if i == 30 then local n = 1 while debug.getlocal(2, n) do if debug.getlocal(2, n) == "i" then debug.setlocal(2, n, 5) end n = n + 1 end end return s % 7 end) return v end)
local function deep(n) return large(n, function(s, n) if n > 0 then return 1 + deep(n - 1) end return 0 end) end
run("deep", 30, function(i) local ok, v = pcall(deep, i * 20) return v end)
run("garbage", N, function(i) local ok, v = pcall(large, i, function(s, i) local t = {} for k = 1, 20 do t[k] = { s, i } end collectgarbage("step", 10) return #t + s % 3 end) return v end)
run("traceback", 40, function(i) local ok, v = xpcall(large, function(m) return debug.traceback(m):gsub("%d+", "#") end, i, function(s) error("x") end) return #v % 100 end)
run("sort", 60, function(i) local t = { 5, 3, 9, i, 1 } table.sort(t, function(a, b) return large(1, function(s) return a < b end) end) return t[1] * 3 + t[5] end)
run("gsub", 60, function(i) return #(("a1b2"):gsub("%d", function(d) return large(d, function(s) return s % 1000 end) end)) end)
run("for", 60, function(i) local c = 0 for a, b in function(_, k) return large(k or 0, function(s, k) if k < 3 then return k + 1, s % 3 end end) end, nil, 0 do c = c + a + b end return c end)
