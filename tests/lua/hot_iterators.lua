-- Generic loops that are hot, over tables of every kind, and what may change under them.

local function sum(t) local s, n = 0, 0 for i, v in ipairs(t) do s = s + v; n = n + i end return s, n end
local function total(t) local s, n = 0, 0 for k, v in pairs(t) do s = s + v; n = n + 1 end return s, n end
local function keys(t) local all = {} for k in pairs(t) do all[#all + 1] = tostring(k) end table.sort(all) return table.concat(all, " ") end
local function show(...) print(...) end

local ints, floats, mixed = {}, {}, {}
for i = 1, 50 do ints[i] = i; floats[i] = i + 0.5; mixed[i] = i % 3 == 0 and i + 0.25 or i end
for _ = 1, 5 do
  show("ints", sum(ints)) show(total(ints))
  show("floats", sum(floats)) show(total(floats))
  show("mixed", sum(mixed)) show(total(mixed))
end
show("empty", sum {}) show(total {})

-- The array part, nodes and fields in one table; integer keys that are not in the array.
for _ = 1, 6 do
  show(total { 1, 2, 3, a = 10, b = 20, [0] = 5, [-1] = 6, [100] = 7 })
  show(keys { "one", "two", [0] = "zero", [7] = "seven" })
  show(keys { 1, 2, [0] = 0 })
  show(keys { [2] = 2, [3] = 3, [1] = 1 })
  show(sum { 1, 2, 3, [5] = 9, [4] = 8 })
end
do
  local holes = {}
  for i = 1, 20 do holes[i] = i end
  for i = 1, 20, 3 do holes[i] = nil end
  for _ = 1, 5 do show("holes", sum(holes)) show(total(holes)) end
  holes[1] = 1
  for _ = 1, 3 do show("holes", sum(holes)) show(total(holes)) end
end

-- Elements of another type than so far, in mid-loop.
do
  local function lengths(t) local n = 0 for _, v in ipairs(t) do n = n + #tostring(v) end return n end
  local t = {}
  for i = 1, 30 do t[i] = i end
  for round = 1, 12 do
    if round == 6 then t[17] = "seventeen" end
    if round == 8 then t[3] = 3.5 end
    if round == 10 then t[29] = { 1 } ; t[29] = true end
    show(round, lengths(t))
  end
end

-- The table changes while it is gone through.
do
  local function drain(t) local n = 0 for k in pairs(t) do t[k] = nil; n = n + 1 end return n, next(t) end
  local function double(t) for k, v in pairs(t) do t[k] = v * 2 end return total(t) end
  local function grow(t) local n = 0 for i, v in ipairs(t) do if i < 40 then t[#t + 1] = v + 1 end n = n + v end return n, #t end
  local function cut(t) local n = 0 for i, v in ipairs(t) do n = n + v; t[#t] = nil end return n, #t end
  for _ = 1, 5 do
    local t = { x = 1, y = 2 }
    for i = 1, 20 do t[i] = i end
    show("double", double(t))
    show("drain", drain(t))
    show("grow", grow { 1, 2, 3 })
    show("cut", cut { 1, 2, 3, 4, 5, 6, 7 })
  end
end

-- Metatables: __index for ipairs, __pairs for pairs, both set and taken away in mid-loop.
do
  local behind = setmetatable({ 1, 2 }, { __index = function(_, i) if i <= 5 then return i * 10 end end })
  local paired = setmetatable({ 1, 2, 3 }, { __pairs = function(t) return function(_, k) k = (k or 0) + 1 if k < 4 then return k, k * 100 end end, t, nil end })
  local plain = setmetatable({ 4, 5, 6 }, { __name = "plain" })
  for round = 1, 6 do
    show(sum(behind)) show(total(paired)) show(total(plain)) show(sum(plain)) show(sum(ints)) show(total(ints))
  end
  local t = { 1, 2, 3 }
  for round = 1, 6 do
    local n = 0
    for i, v in ipairs(t) do
      n = n + v
      if i == 2 and round % 2 == 0 then setmetatable(t, { __index = function(_, i) if i < 6 then return 1000 end end }) end
    end
    show("set on the way", n)
    setmetatable(t, nil)
  end
  local class = setmetatable({}, { __index = function(_, i) error("no element " .. i, 0) end })
  local function careful(t) for i, v in ipairs(t) do show(i, v) end end
  show(pcall(careful, class))
end

-- Iterators that are replaced: a native, a function, a callable table, a coroutine, at the same loop.
do
  local function count(f, s, c) local n = 0 for a, b in f, s, c do n = n + (tonumber(b) or 1) end return n end
  local function three(_, k) k = (k or 0) + 1 if k < 4 then return k, k end end
  for _ = 1, 4 do
    show(count(next, ints)) show(count(next, { a = 1, b = 2 })) show(count(ipairs(ints))) show(count(three))
    show(count(setmetatable({}, { __call = function(_, s, k) return three(s, k) end })))
    show(count(coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i, i * 7) end end)))
    show(count(string.gmatch("1 2 3", "%d")))
    show(count(next, ints, 48)) show(count(next, { 1, 2, x = 5 }, 2))
  end
  show(pcall(count, next, ints, "nothing"))
  show(pcall(count, next, 5))
  show(pcall(count, nil))
  show(pcall(count, ipairs({}), 3))
end

-- Names in errors; positions after an error in a body.
do
  local function bad(t) for i, v in ipairs(t) do local x = v.field.sub end end
  local function worse(t) for k, v in pairs(t) do k = k + v end end
  for _ = 1, 5 do pcall(bad, { { field = {} }, { field = {} } }) pcall(worse, { 1, 2, 3 }) end
  show(pcall(bad, { { field = {} }, {} }))
  show(pcall(bad, { { field = {} }, 5 }))
  show(pcall(worse, { 1, 2, x = 3 }))
  show(pcall(worse, { 1, {} }))
  show(pcall(ipairs)) show(pcall(pairs)) show(pcall(pairs, nil)) show(pcall(ipairs, nil))
  local function of_nothing(x) for _ in pairs(x) do end end
  for _ = 1, 5 do of_nothing {} end
  show(pcall(of_nothing, nil)) show(pcall(of_nothing, 7))
  local function strings(s) local n = 0 for _, v in ipairs(s) do n = n + 1 end return n end
  for _ = 1, 5 do strings {} end
  show(pcall(strings, "text")) show(pcall(strings, 7))
end

-- To-be-closed values, variables that functions capture, yields and collections inside, nested loops over one table.
do
  local closed = 0
  local function closing(t, c) local n = 0 for k, v in next, t, nil, c do n = n + v end return n end
  for _ = 1, 4 do show(closing({ 1, 2, 3 })) end
  for _ = 1, 3 do show(closing({ 1, 2, 3 }, setmetatable({}, { __close = function() closed = closed + 1 end }))) end
  show("closed", closed)
  local function capture(t) local fs = {} for i, v in ipairs(t) do fs[i] = function() i = i + 1 return i * v end end return fs end
  for _ = 1, 4 do local fs = capture { 1, 2, 3 } show(fs[1](), fs[2](), fs[3](), fs[3]()) end
  local function each(t) for k, v in pairs(t) do coroutine.yield(k, v) end for i, v in ipairs(t) do coroutine.yield(i, -v) end end
  for _ = 1, 3 do
    local out = {}
    for k, v in coroutine.wrap(function() each { 1, 2, 3 } end) do out[#out + 1] = k .. "=" .. v end
    show(table.concat(out, " "))
  end
  local function collects(t) local n = 0 for i, v in ipairs(t) do if i % 20 == 0 then collectgarbage() end local s = { v } n = n + #s + s[1] end return n end
  for _ = 1, 3 do show(collects(ints)) end
  local function square(t) local n = 0 for i, v in ipairs(t) do for j, w in ipairs(t) do n = n + v * w end for _, w in pairs(t) do n = n - w end end return n end
  for _ = 1, 4 do show(square { 1, 2, 3, 4 }, square { 1.5, 2.5 }) end
  local function leaves(t) for i, v in ipairs(t) do if v > 2 then return i, v end if v == 2 then goto on end if v < 0 then break end ::on:: end return "none" end
  for _ = 1, 4 do show(leaves { 1, 2, 3 }) show(leaves { 1, -1, 3 }) show(leaves {}) end
  local function many(t) local out = {} for a, b, c, d in pairs(t) do out[#out + 1] = tostring(a) .. tostring(b) .. tostring(c) .. tostring(d) end return table.concat(out, ",") end
  for _ = 1, 4 do show(many { 5, 6 }) show(many { x = 1 }) end
end

-- The library's names are variables.
do
  local saved = ipairs
  local function f(t) local n = 0 for _, v in ipairs(t) do n = n + v end return n end
  for round = 1, 8 do
    if round == 5 then ipairs = function(t) return function(_, i) if i < 2 then return i + 1, 50 end end, t, 0 end end
    if round == 7 then ipairs = saved end
    show(f { 1, 2, 3 })
  end
end
