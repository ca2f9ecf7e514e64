-- Arrays of booleans through everything that looks at, moves or changes elements, alone and with values of other types.
local function show(t, n)
  local s = {}
  for i = 1, n or #t do s[i] = t[i] == nil and "-" or t[i] == true and "T" or t[i] == false and "F" or tostring(t[i]) end
  return table.concat(s, " ")
end
local function flags(n)
  local t = {}
  for i = 1, n do t[i] = i % 3 == 0 end
  return t
end

-- Made by stores, constructors, varargs, libraries.
for _, n in ipairs { 0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 33 } do print(n, #flags(n), show(flags(n))) end
print(show { true }, show { false, true }, show { true, true, true, false, false })
print(show { true, 1, "x" }, show { 1, true }, show { "x", false, 2.5 }, show({ true, nil, false }, 3), show({ nil, true }, 2))
print(show { true, false, (function() return true, false, "end" end)() }, show { (function() return false, true end)() })
local function all(...) return { ... }, { true, ... }, select("#", ...) end
local a, b, n = all(false, true, true)
print(show(a), show(b), n)
print(show(table.pack(true, false, true)), table.pack(true, nil).n)
local long = { true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true,
  true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true,
  true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, false }
print(#long, long[1], long[57], long[58], long[59])

-- Every way out of the kind: over an element, behind the last, nil at the end and within, far away.
for _, v in ipairs { 1, -0.0, "text", print, math.mininteger } do
  local what = math.type(v) or type(v)
  for _, n in ipairs { 1, 4, 17, 64, 65, 200 } do
    local t = flags(n)
    t[n] = v
    print(what, n, #t, t[n] == v, t[1] == v or t[1], t[n - 1])
    t = flags(n); t[n + 1] = v
    print(what, n, #t, t[n + 1] == v, t[1], t[n])
    t = flags(n); t[1] = v
    print(what, n, #t, t[1] == v, t[n] == v or t[n])
    t = flags(n); t[10 * n] = v
    print(what, n, t[10 * n] == v, t[1], t[n])
    t = flags(n)
    for i = n, 1, -1 do t[i] = nil end
    print(#t, next(t))
    for i = 1, n do t[i] = v end
    print(#t, t[1] == v, t[n] == v)
  end
end
for _, n in ipairs { 1, 3, 4, 17, 66 } do
  local t = flags(n)
  t[n] = nil
  print("nil at the end", #t, t[n], t[n - 1])
  t[n] = true
  print(#t, t[n])
  t[1] = nil
  local count = 0
  for k, v in pairs(t) do count = count + (v and k or -k) end
  print("nil within", t[1], t[2], t[n], count)
  t[1] = false
  print(#t, t[1])
end

-- The other way round: values of other types go, booleans come.
do
  local t = { 1, 2, 3 }
  for i = 1, 3 do t[i] = i == 2 end
  print(show(t))
  t = { "a", "b" }
  t[1], t[2] = nil, nil
  t[1], t[2], t[3] = true, false, true
  print(show(t), #t)
  t = { 1, 2 }
  t[2] = nil; t[1] = nil
  for i = 1, 40 do t[i] = i % 2 == 0 end
  print(show(t), #t)
  for i = 40, 1, -1 do t[i] = nil end
  for i = 1, 40 do t[i] = i / 2 end
  print(t[1], t[40], #t)
end

-- The library.
do
  local t = flags(10)
  print(show(t), table.unpack(t))
  print(select("#", table.unpack(t, 3, 12)), table.unpack(t, 9, 12))
  table.insert(t, true)
  table.insert(t, 1, true)
  table.insert(t, 5, false)
  print(show(t), #t)
  print(table.remove(t), table.remove(t, 1), table.remove(t, 3), show(t))
  table.insert(t, 2, 7)
  print(show(t), table.remove(t, 2), show(t))
  table.insert(t, 2, "s")
  print(show(t))
  t = flags(8)
  print(show(table.move(t, 1, 8, 3)), show(table.move(t, 3, 10, 1, {})), show(table.move({ 1, 2 }, 1, 2, 2, flags(4))))
  table.sort(t, function(x, y) return x and not y end)
  print(show(t))
  print(pcall(table.sort, flags(3)))
  print(pcall(table.concat, flags(3)))
  while #t > 0 do table.remove(t, 1) end
  print(#t, next(t), table.remove(t))
  t = flags(5)
  print(rawlen(t), rawget(t, 3), rawset(t, 6, true) == t, rawequal(t[6], true), t[6], rawget(t, 7), rawget(t, 0))
  print(t[2.0], t[2.5], t["2"], t[3.0], t[-1])
end

-- Traversals, also with changes meanwhile.
do
  local t = flags(12)
  local s = {}
  for i, v in ipairs(t) do s[#s + 1] = i .. tostring(v) end
  print(table.concat(s, " "))
  s = {}
  for k, v in pairs(t) do s[#s + 1] = k .. tostring(v); t[k] = not v end
  print(table.concat(s, " "), show(t))
  for k in pairs(t) do if k % 2 == 0 then t[k] = nil end end
  print(show(t, 12))
  t = flags(9)
  for k, v in next, t do t[k] = v and 1 or 0.5 end
  print(show(t))
  t = flags(6)
  t.name, t[100], t[0], t[-1] = "n", true, false, true
  local count = 0
  for k, v in pairs(t) do count = count + 1 end
  print(count, #t, t[100], t[0], t[-1], t.name)
  print(next(flags(1)), next(flags(1), 1), next({}, nil))
end

-- Keys that come down, from the middle, out of the hash part.
do
  local t = {}
  for i = 20, 1, -1 do t[i] = i % 2 == 0 end
  print(#t, show(t))
  t = { [3] = true, [2] = false, [1] = true }
  t[4] = false
  print(#t, show(t))
  t = {}
  for i = 1, 64 do t[i * 7 % 65] = i > 30 end
  print(#t, show(t))
  t = {}
  for i = 1, 10 do t[#t + 1] = i > 5 end
  t[#t + 1] = 11
  t[#t + 1] = true
  print(#t, show(t))
end

-- Large ones, which grow where they are, shrink and grow again; what is stored is what is read.
do
  local t, n = {}, 70000
  for i = 1, n do t[i] = i % 7 == 0 end
  local yes = 0
  for i = 1, n do if t[i] then yes = yes + 1 end end
  print(#t, yes)
  for i = 7, n, 7 do t[i] = false end
  for i = 1, n do assert(t[i] == false) end
  for i = n, 101, -1 do t[i] = nil end
  print(#t, t[100], t[101])
  collectgarbage()
  for i = 101, n do t[i] = true end
  print(#t, t[100], t[101], t[n])
  t[n // 2] = "here"
  print(#t, t[n // 2], t[n // 2 - 1], t[1], t[n])
end

-- Metatables: what is there is there; what is not is asked for.
do
  local log = {}
  local t = setmetatable(flags(3), {
    __index = function(_, k) log[#log + 1] = "get " .. tostring(k); return k end,
    __newindex = function(t, k, v) log[#log + 1] = "set " .. tostring(k); rawset(t, k, v) end,
    __len = function() return 77 end,
  })
  print(t[1], t[3], t[4], #t)
  t[2] = true; t[4] = false; t[4] = true; t[3] = nil; t[3] = true
  print(t[2], t[4], t[3], table.concat(log, ", "))
  for _, mode in ipairs { "k", "v", "kv" } do
    local w = setmetatable(flags(9), { __mode = mode })
    collectgarbage()
    w[10] = {}
    collectgarbage()
    print(mode, show(w, 9), mode == "k" or w[10])
  end
end

-- Tables in it, and a collection: what was an array of booleans holds what it refers to.
do
  local t = flags(100)
  t[50] = { "kept" }
  collectgarbage(); collectgarbage("step")
  for i = 1, 100 do local s = ("x"):rep(i) end
  print(t[50][1], t[49], t[51])
end

-- Operators and comparisons of elements.
do
  local t = flags(6)
  print(t[1] == false, t[3] == true, t[1] == t[2], t[1] ~= t[3], not t[1], not t[3], t[1] or "or", t[3] and "and", t[1] == nil)
  local e, f = t[1], t[3]
  t[1] = "other"
  print(e, f, type(e), tostring(f), t[1])
  print(pcall(function() return t[2] + 1 end))
  print(pcall(function() return t[2] .. "" end))
  print(pcall(function() return t[2] < t[3] end))
  print(pcall(function() return t[2].x end))
end
