-- floats as keys that come to hold references, objects as keys, dunder names, dictionaries of many sizes at one site
local function churn(n) for i = 1, n do local _ = {i} end end
local t = {}
for i = 1, 60 do t[i + 0.5] = i end
local function over(t, k, v) t[k] = v end
local function at(t, k) return t[k] end
for r = 1, 3 do
  for i = 1, 60 do over(t, i + 0.5, {("v"):rep(10) .. i}) end
  churn(200) collectgarbage()
  for i = 1, 60 do assert(at(t, i + 0.5)[1] == ("v"):rep(10) .. i) end
end
for i = 1, 60 do over(t, i + 0.5, nil) end
assert(next(t) == nil and at(t, 7.5) == nil and at(t, 0/0) == nil)
print(pcall(over, t, 0/0, 1))
local keys = {}
for i = 1, 50 do keys[#keys+1] = {} keys[#keys+1] = function() return i end keys[#keys+1] = coroutine.create(print) end
keys[#keys+1] = io.stdout keys[#keys+1] = print
local m = setmetatable({}, {__index = function(_, k) return type(k) end, __newindex = function(t, k, v) rawset(t, k, {v}) end})
for _, k in ipairs(keys) do assert(at(m, k) == type(k)) over(m, k, 1) assert(at(m, k)[1] == 1) over(m, k, {2}) end
churn(200) collectgarbage()
for _, k in ipairs(keys) do assert(at(m, k)[1] == 2) over(m, k, nil) assert(at(m, k) == type(k)) end
-- Weak keys die still.
local w = setmetatable({}, {__mode = "k"})
do for i = 1, 100 do over(w, {}, {}) end for k in pairs(w) do over(w, k, 7) end end
collectgarbage() collectgarbage()
print(next(w))
-- Dictionaries of many sizes: get, set, nil, dunder names.
local dicts = {}
for i = 1, 40 do
  local d = {}
  for j = 1, i * 3 do d["k" .. j] = j end
  d.v, d.__index = i, {inherited = i}
  dicts[i] = d
end
local function get(d) return d.v end
local function set(d, v) d.v = v end
local function setindex(d, v) d.__index = v end
local sum = 0
for r = 1, 40 do for i, d in ipairs(dicts) do set(d, {get(d)}) set(d, get(d)[1] + 1) sum = sum + get(d) end end
print(sum)
local objs = {}
for i, d in ipairs(dicts) do objs[i] = setmetatable({}, d) end
local function inherited(o) return o.inherited end
for r = 1, 40 do for i, o in ipairs(objs) do assert(inherited(o) == (r == 1 and i or r - 1)) setindex(dicts[i], {inherited = r}) end end
for i, d in ipairs(dicts) do set(d, nil) assert(get(d) == nil and rawget(d, "v") == nil) end
local called = 0
for i, d in ipairs(dicts) do setmetatable(d, {__newindex = function(t, k, v) called = called + 1 end, __index = function() return "absent" end}) end
for i, d in ipairs(dicts) do set(d, 1) assert(get(d) == "absent") end
print(called)
-- Shapes: the same with records of many shapes.
local recs = {}
for i = 1, 40 do local d = load("return {" .. ("a%d=1,"):rep(i % 10):gsub("%%d", function() return "" end) .. "b" .. i .. "=1, v=0, __index={inherited=1}}")() recs[i] = d end
for r = 1, 40 do for i, d in ipairs(recs) do set(d, (get(d) or 0) + 1) end end
for i, d in ipairs(recs) do objs[i] = setmetatable({}, d) end
for r = 1, 40 do for i, o in ipairs(objs) do assert(inherited(o) == (r == 1 and 1 or r - 1)) setindex(recs[i], {inherited = r}) end end
print(get(recs[7]))
