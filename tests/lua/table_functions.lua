-- table library: results, bounds, metamethods, messages.
local function msg(f, ...)
  local ok, e = pcall(f, ...)
  print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ ")))
end
local function show(t) print(#t, table.unpack(t)) end

local t = {}
table.insert(t, "a") table.insert(t, 1, "b") table.insert(t, 2, "c") table.insert(t, #t + 1, "d")
show(t)
print(table.remove(t), table.remove(t, 1), table.remove(t, 1)) show(t)
print(table.remove({}), table.remove({}, 0), table.remove({}, 1), #t, table.remove(t, #t + 1))
msg(table.insert, {1, 2, 3}, 0, 20) msg(table.insert, {1, 2, 3}, 5, 20) msg(table.insert, {1, 2, 3}, -1, 20)
msg(table.insert, {1}) msg(table.insert, {1}, 1, 2, 3) msg(table.insert, nil, 1) msg(table.insert, {}, "x", 1) msg(table.insert, 1, 2)
print(pcall(table.remove, {1, 2, 3}, -1) == false, pcall(table.remove, {1, 2, 3}, 5) == false) msg(table.remove) msg(table.remove, {}, {})

print(table.concat({}), table.concat({1, 2.5, "x"}), table.concat({1, 2, 3}, ", "), table.concat({1, 2, 3}, "-", 2), table.concat({1, 2, 3}, "-", 2, 2), table.concat({1, 2, 3}, "-", 3, 2))
print(table.concat({[0] = "z", "a"}, ",", 0, 1), table.concat({1, 2}, 7), #table.concat({}, "x", 1, 0))
msg(table.concat, {1, {}, 3}) msg(table.concat, {1, 2}, "", 1, 3) msg(table.concat, {true}) msg(table.concat, 1) msg(table.concat, {}, {})
print(table.concat({}, "x", math.maxinteger, math.maxinteger - 1), table.concat({[math.maxinteger] = "alo"}, "x", math.maxinteger, math.maxinteger))

print(table.pack().n, table.pack(nil, nil).n, table.pack(1, nil, 3)[3])
print(table.unpack({1, 2, 3})) print(table.unpack({1, 2, 3}, 2)) print(table.unpack({1, 2, 3}, 2, 4)) print(table.unpack({1, 2}, -1, 1))
print(table.unpack({}, 1, 0), table.unpack({n = 5}), table.unpack("abc", 1, 2))
print(select("#", table.unpack({}, 1, 100)))
msg(table.unpack, {}, 1, 1e7) msg(table.unpack, {}, math.mininteger, math.maxinteger) msg(table.unpack, {}, 0, math.maxinteger) msg(table.unpack) msg(table.unpack, 1)
print(table.unpack({[math.maxinteger] = "edge"}, math.maxinteger, math.maxinteger))

show(table.move({1, 2, 3}, 1, 3, 2)) show(table.move({1, 2, 3}, 2, 3, 1)) show(table.move({1, 2, 3}, 1, 3, 1, {9, 9, 9, 9})) show(table.move({1, 2, 3}, 1, 0, 5)) show(table.move({}, 1, 3, 2))
msg(table.move, {}, 1, 2) msg(table.move, 1, 1, 2, 3) msg(table.move, {}, -1, math.maxinteger, 2) msg(table.move, {}, 1, math.maxinteger, 2) msg(table.move, {}, 1, 2, 3, 4)

do -- everything through metamethods
  local log = {}
  local store = {"x", "y", "z"}
  local proxy = setmetatable({}, {
    __len = function() log[#log + 1] = "len" return #store end,
    __index = function(_, k) log[#log + 1] = "get" .. k return store[k] end,
    __newindex = function(_, k, v) log[#log + 1] = "set" .. k store[k] = v end,
  })
  table.insert(proxy, "w") table.insert(proxy, 1, "first") print(table.remove(proxy, 2)) print(table.concat(proxy, ",")) print(table.unpack(proxy))
  table.move(proxy, 1, 2, 3) table.sort(proxy)
  print(table.concat(log, " ")) show(store)
  msg(table.insert, setmetatable({}, {__len = function() return "no" end}), 1)
  msg(table.concat, setmetatable({}, {__len = function() return 1.5 end}))
end
print(#table.pack(table.unpack(table.pack(string.byte(string.rep("x", 200), 1, -1)))))
