-- stress: no
-- Weak tables: keys, values, both, strings and numbers, ephemerons.
local function full() collectgarbage(); collectgarbage() end
local function count(t) local n = 0; for _ in pairs(t) do n = n + 1 end return n end
local function weak(mode) return setmetatable({}, { __mode = mode }) end
local wk, wv, wkv, strong = weak "k", weak "v", weak "kv", {}
local keep = {}
do
  for i = 1, 10 do
    local o = { i }
    if i % 2 == 0 then keep[#keep + 1] = o end
    wk[o] = i; wv[i] = o; wkv[o] = { i }; strong[o] = i
  end
end
print(count(wk), count(wv), count(wkv), count(strong))
strong = nil; full()
print(count(wk), count(wv), count(wkv))
for i = 1, 10 do io.write(wv[i] and wv[i][1] or "-", " ") end print()
keep = nil; full(); print(count(wk), count(wv), count(wkv))
-- strings and numbers and booleans are values, never removed
local w = weak "kv"; w["k" .. 1] = "v" .. 1; w[1] = 2; w[true] = false; w[1.5] = "x" .. 2; w.fn = print; full(); print(count(w), w.k1, w[1], w[true], w[1.5], w.fn == print)
-- in the array part and the hash part
local arr = weak "v"; for i = 1, 20 do arr[i] = i % 3 == 0 and {} or "s" .. i end; local hold = { arr[3], arr[9] }; full()
for i = 1, 20 do io.write(type(arr[i]):sub(1, 1), " ") end print()
-- functions and threads and closures without upvalues
local wf = weak "v"; do local up = {}; wf[1] = function() return up end; wf[2] = coroutine.create(function() end); wf[3] = print end full(); print(wf[1], wf[2], wf[3] == print)
-- ephemerons: the value keeps its own key alive only through the table
local e = weak "k"; do local k = {}; e[k] = { k } end full(); print(count(e))
do local a, b = {}, {}; e[a] = b; e[b] = a end full(); print(count(e))
local root = {}; do local k1, k2, k3 = {}, {}, {}; e[root] = k1; e[k1] = k2; e[k2] = k3; e[k3] = "end" end full(); print(count(e), e[e[e[e[root]]]])
root = nil; full(); print(count(e))
-- a chain of ephemerons across tables
local t1, t2, t3 = weak "k", weak "k", weak "k"; local start = {}
do local a, b, c = {}, {}, {}; t1[start] = a; t2[a] = b; t3[b] = c; t1[c] = "reached" end full()
print(t1[t3[t2[t1[start]]]], count(t1), count(t2), count(t3)); start = nil; full(); print(count(t1), count(t2), count(t3))
-- a long ephemeron chain
local long = weak "k"; local head = {}; do local k = head; for i = 1, 1000 do local n = {}; long[k] = n; k = n end end full(); print(count(long)); head = nil; full(); print(count(long))
-- weak values do not act as ephemerons
local ev = weak "v"; do local v = {}; ev[v] = v end full(); print(count(ev))
-- cache with weak values
local made = 0; local cache = weak "v"; local function get(k) local o = cache[k]; if not o then made = made + 1; o = { k }; cache[k] = o end return o end
local x = get "a"; get "b"; full(); print(get "a" == x, made); get "b"; print(made)
-- mode changed after creation
local ch = {}; do ch[1] = {}; ch[2] = {} end setmetatable(ch, { __mode = "v" }); full(); print(ch[1], ch[2])
local ch2 = weak "v"; getmetatable(ch2).__mode = nil; do ch2[1] = {} end full(); print(type(ch2[1])); getmetatable(ch2).__mode = "v"; full(); print(type(ch2[1]))
-- traversal with collection going on
local tr = weak "k"; local ks = {}; for i = 1, 100 do local k = {}; ks[i] = k; tr[k] = i end
local seen, sum = 0, 0; for k, v in pairs(tr) do seen = seen + 1; sum = sum + v; if seen % 10 == 0 then full() end end print(seen, sum)
for i = 1, 100, 2 do ks[i] = nil end full(); local left = 0; for _, v in pairs(tr) do left = left + v end print(left)
-- length of a weak array after clearing may be any border; next over it finds nothing
local wa = weak "v"; for i = 1, 8 do wa[i] = {} end full(); print(next(wa))
-- reuse of a cleared table
for i = 1, 5 do wa[i] = "s" .. i end print(#wa, table.concat(wa, ","))
-- other modes are ignored
local odd = weak "x"; odd[1] = {}; odd[{}] = 1; full(); print(count(odd)); local num = setmetatable({}, { __mode = 5 }); num[1] = {}; full(); print(count(num))
-- metatables shared by many weak tables
local mt = { __mode = "v" }; local many = {}; for i = 1, 50 do many[i] = setmetatable({ {} }, mt) end full(); local alive = 0; for i = 1, 50 do if many[i][1] then alive = alive + 1 end end print(alive)
-- keys that are strings built at run time with collectable values
local sv = weak "v"; for i = 1, 100 do sv["key" .. i] = {} end; sv.keep = mt; full(); print(count(sv), sv.keep == mt)
