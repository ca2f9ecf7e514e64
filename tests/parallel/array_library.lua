-- Arrays and the plain library: what works on a table with metamethods works, what cannot says so.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, message)
end

local a = pl.array("f64", { 3, 1, 2.5 })
local seen = {}
for k, v in pairs(a) do seen[#seen + 1] = k .. "=" .. v end
print(table.concat(seen, " "), #a)
seen = {}
for k, v in ipairs(a) do seen[#seen + 1] = k .. "=" .. v end
print(table.concat(seen, " "))
for _ in pairs(pl.array("u8", 0)) do print "never" end
print(table.unpack(a))
print(table.unpack(a, 2, 4))
print(table.concat(a, " "), table.concat(a, "+", 2, 3))
table.sort(a)
print(table.concat(a, " "))
table.sort(a, function(x, y) return x > y end)
print(table.concat(a, " "))
print(table.concat(table.move(a, 1, 3, 2, { 0 }), " "))
print(table.move({ 7, 8, 9 }, 1, 2, 2, a) == a, table.concat(a, " "))
print(select("#", table.unpack(pl.array("i32", 200))))
refused(table.insert, a, 4)
refused(table.insert, a, 1, 4)
refused(table.remove, a)
refused(table.move, a, 1, 3, 2)
refused(next, a)
refused(rawlen, a)
refused(table.sort, pl.array("u8", 3), function() error "no" end)

-- Kinds.
refused(pl.array, "float", 3)
refused(pl.array, "F64", 3)
refused(pl.array, "u9", 3)
refused(pl.array, "complex", 3)
refused(pl.array, 3)
refused(pl.array, "f64", 2, 0)
refused(pl.array, "f64", -1, 2)

-- Names.
refused(function() return a.foo end)
refused(function() return a:summ() end)
refused(function() return a[true] end)
refused(function() a.foo = 1 end)
refused(function() a[1.5] = 1 end)
refused(function() a[true] = 1 end)
print(a[1.5], a[1.0], a[0], a[4])

-- Constant indices and other numbers than the element's own.
local u, f, i = pl.array("u8", 2), pl.array("f32", 2), pl.array("i64", 2)
u[1], f[1], i[1] = 255.0, 3, 4.0
u[2], f[2], i[2] = 7, 0.1, math.mininteger
print(u[1], u[2], f[1], f[2], i[1], i[2])
for _, v in ipairs { 256, -1, 0.5, "1", false } do refused(function() u[1] = v end) end
refused(function() i[3] = 1 end)

-- Two dimensions.
local m = pl.array("i32", 2, 3)
print(m, #m, m:size())
for r = 1, 2 do for c = 1, 3 do m:put(r, c, r * 10 + c) end end
print(table.concat(m, " "), m:at(2, 3), m:at(1, 2.0), m[4])
local row = m:row(2)
row[1] = 99
print(m:at(2, 1), #row, table.concat(row, " "))
print(#m:totable(), table.concat(m:totable()[2], " "), table.concat(m:totable(2, 3), " "))
local l = pl.array("f64", { { 1, 2 }, { 3, 4 }, { 5, 6 } })
print(l, l:at(3, 1), l:sum(), l:size())
print(l:reshape(2, 3), l:reshape(2, 3):at(2, 1), pl.array("u8", 4):size())
refused(function() return m:at(3, 1) end)
refused(function() return m:at(1, 0) end)
refused(function() return m:at(1, 4) end)
refused(function() return m:at(1) end)
refused(function() return m:at("x", 1) end)
refused(function() m:put(0, 1, 1) end)
refused(function() m:put(1, 1, "x") end)
refused(function() m:put(1, 1) end)
refused(function() return row:at(1, 1) end)
refused(function() return m:row(3) end)
refused(function() return l:reshape(2, 2) end)
refused(pl.array, "f64", { { 1, 2 }, { 3 } })
refused(pl.array, "f64", { { 1, 2 }, 3 })
print(pcall(m.at, m, 2, 2), m.at(m, 2, 2), (select("#", m:put(1, 1, 1))))

-- Methods are found where they were, and where they are replaced nobody is told: there is no door to the metatable.
local function each(arrays) local s = 0 for _ = 1, 50 do for _, x in ipairs(arrays) do s = s + x:at(1, 1) + #x:kind() end end return s end
print(each { m, l, pl.array("u8", 1, 1) })

-- In tasks.
local pool = pl.pool.default()
local g = pl.array("i64", 40, 50)
pool:parallel_for(1, 40, function(r) for c = 1, 50 do g:put(r, c, r * c) end end)
print(g:sum(), g:at(40, 50))
local squares = pool:map(pl.array("f64", { 1, 2, 3 }), function(x) return x * x end, { into = pl.array("f64", 3) })
print(table.concat(squares, " "))
print(table.concat(pool:map({ "a", "b" }, function(s) return s:upper() end, { into = pl.array("string", 2) }), " "))
print(pool:parallel_reduce(1, #g, 0, function(n) return g[n] end, function(x, y) return x + y end))
local shuffled = pl.array("i32", { 5, 3, 4, 1, 2 })
pool:sort(shuffled)
print(table.concat(shuffled, " "), table.concat(pool:parallel_scan(shuffled, function(x, y) return x + y end), " "))
