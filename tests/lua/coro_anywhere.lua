-- Yields where PUC Lua has a C function in between: sort, gsub, ipairs, require, load readers, tostring, table functions.
local y = coroutine.yield
local function run(f) local co = coroutine.create(f); local out, args, n = {}, {}, 0
  while true do local r = table.pack(coroutine.resume(co, table.unpack(args))); n = n + 1
    if coroutine.status(co) == "dead" then out[#out + 1] = "=>"; for i = 1, r.n do out[#out + 1] = tostring(r[i]) end break end
    out[#out + 1] = "y:" .. tostring(r[2]); args = { "r" .. n } end
  print(table.concat(out, " ")) end
run(function() local t = { 3, 1, 2 }; table.sort(t, function(a, b) y "cmp"; return a < b end); return table.concat(t, ",") end)
run(function() return (("abc"):gsub("%w", function(c) return y(c) end)) end)
run(function() local r = {}; for i, v in ipairs(setmetatable({}, { __index = function(_, i) y("ip" .. i); if i <= 2 then return i * 10 end end })) do r[#r + 1] = v end return table.concat(r, ",") end)
run(function() return tostring(setmetatable({}, { __tostring = function() return "s" .. y "ts" end })) end)
run(function() local parts = { "return ", "42" }; local i = 0; return load(function() i = i + 1; y("read" .. i); return parts[i] end)() end)
run(function() package.preload.yielding = function() return y "loading" end; return require "yielding" end)
run(function() local t = setmetatable({}, { __index = function(_, i) return y("get" .. i) end, __len = function() y "len"; return 2 end }); return table.unpack(t) end)
run(function() local t = setmetatable({}, { __index = function(_, i) return y("get" .. i) end, __len = function() return 2 end }); return table.concat(t, "+") end)
run(function() local log = {}; local t = setmetatable({}, { __newindex = function(t, k, v) y("set" .. k); rawset(t, k, v) end }); table.insert(t, "a"); table.insert(t, "b"); return t[1], t[2] end)
run(function() local t = table.move(setmetatable({}, { __index = function(_, i) return y("m" .. i) end }), 1, 2, 1, {}); return t[1], t[2] end)
run(function() return select("#", pcall(table.sort, { 2, 1 }, function() y "in"; error "E" end)) end)
run(function() local ok, e = pcall(string.gsub, "x", "x", function() y "cb"; error("E", 0) end); return ok, e end)
run(function() local n = 0; for w in ("a b"):gmatch("%a") do y(w); n = n + 1 end return n end)
run(function() table.sort({ 1, 2 }, function(a, b) return coroutine.wrap(function() y "inner"; return a < b end)() == nil end); return "nested" end)
run(function() local t = setmetatable({}, { __pairs = function(t) y "pairs"; return next, { k = "v" } end }); for k, v in pairs(t) do return k, v end end)
run(function() local out = {}; table.sort({ 3, 1, 2 }, function(a, b) ("x"):gsub("x", function() y "deep" end); return a < b end); return "done" end)
do -- a coroutine suspended inside sort that is closed, and one that is dropped
  local log = {}
  local co = coroutine.create(function() local c <close> = setmetatable({}, { __close = function() log[#log + 1] = "closed" end }); table.sort({ 2, 1 }, function() y() end) end)
  coroutine.resume(co); print(coroutine.close(co), table.concat(log), coroutine.status(co))
  for i = 1, 100 do local c = coroutine.wrap(function() ("x"):gsub("x", function() y(i) end) end); c() end; collectgarbage(); print "dropped"
end
do -- many at once, resumed in turns
  local cos = {}; for i = 1, 200 do cos[i] = coroutine.wrap(function() return (("ab"):gsub("%w", function(c) return y(c) .. i end)) end); cos[i]() end
  local ok = true; for i = 1, 200 do ok = ok and cos[i]("x") == "b" end; for i = 1, 200 do ok = ok and cos[i]("z") == "x" .. i .. "z" .. i end; print(ok)
end
