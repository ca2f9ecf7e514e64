-- Arrays of strings and of records.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, message)
end

-- Strings.
local s = pl.array("string", { "one", "", "three" })
print(s, #s, s[1], s[2] == "", s[4], s:kind(), table.concat(s, ","))
s[2] = ("x"):rep(3)
s[1] = ""
for i, v in ipairs(s) do io.write(i, "=", v, " ") end
print()
table.sort(s)
print(table.concat(s:totable(), "|"), #s:fill("z"), s[3])
refused(function() s[1] = 1 end)
refused(function() s[1] = nil end)
refused(function() s[4] = "x" end)
refused(function() s.x = "x" end)
refused(function() return s:sum() end)
refused(pl.array, "string", 2, 2)
refused(pl.array, "string", { "a", 1 })
refused(table.insert, s, "x")

-- Records.
local p = pl.array({ x = "f64", y = "f64", id = "i32", name = "string" }, 3)
print(p, #p, p:kind())
for i = 1, #p do
  p[i].x = i
  p[i].y = i * 0.5
  p[i].id = i * 100
  p[i].name = "p" .. i
end
print(p[2].x, p[2].y, p[2].id, p[2].name, p.x[3], p.name[1], p.x:sum())
p.x[1] = 42
local r = p[1]
r.y = r.x + 1
print(p[1].y, r.x, r == p[1], r == p[2], r, r.id // 7)
p[2] = { x = 1, y = 2, id = 3, name = "set" }
p:set(3, { x = -1 })
local t = p:get(2)
t.x = 1000
print(p[2].x, t.name, p[3].x, p[3].id)
local fields = {}
for k, v in pairs(p[3]) do fields[#fields + 1] = k .. "=" .. tostring(v) end
table.sort(fields)
print(table.concat(fields, " "))
local kinds = p:fields()
print(kinds.x, kinds.y, kinds.id, kinds.name, p:column "y" == p.y)
print(#p:totable(), p:totable()[1].x)
local n = 0
for i, row in ipairs(p) do n = n + i * row.id end
for i, row in pairs(p) do n = n + i * row.id end
print(n, p[4], p[0])
local list = pl.array({ a = "u8" }, { { a = 1 }, { a = 2 } })
print(list[2].a, #list)
local grid = pl.array({ h = "f32", kind = nil }, 2, 2)
grid.h:put(2, 2, 7)
print(grid[4].h, grid.h:size())

refused(function() return p[1].z end)
refused(function() p[1].idd = 1 end)
refused(function() p[1].id = 1.5 end)
refused(function() p[1].id = "1" end)
refused(function() p[1].name = 1 end)
refused(function() p[5] = { x = 1, y = 2, id = 3, name = "" } end)
refused(function() p[1] = { x = 1 } end)
refused(function() p[1] = { x = 1, y = 1, id = 1, name = "", z = 1 } end)
refused(function() p[1] = p[2] end)
refused(function() p[1], p[2] = p[2], p[1] end)
refused(function() p[1] = 5 end)
refused(function() p.x = 5 end)
refused(function() p.z = 5 end)
refused(function() return p.z end)
refused(function() return p[5].x end)
refused(function() return p:get(4) end)
refused(function() p:set(1, { z = 1 }) end)
refused(pl.array, {}, 3)
refused(pl.array, { x = "f65" }, 3)
refused(pl.array, { x = 1 }, 3)
refused(pl.array, { "f64" }, 3)
refused(pl.array, { get = "f64" }, 3)
refused(pl.array, { x = "f64" }, { { x = 1 }, 2 })
refused(table.sort, p, function(a, b) return a.x < b.x end)

-- A row is a place of this domain.
local pool = pl.pool.default()
refused(function() return pool:async(function(row) return row.x end, p[1]):await() end)
print(pool:async(function(records, i) return records[i].x end, p, 1):await())
local many = pl.array({ hits = "i64", last = "string" }, 16)
pool:parallel_for(1, 4000, function(i) many.hits:add(i % 16 + 1, 1) end)
pool:parallel_for(1, 16, function(i) many[i].last = "task " .. i end)
local same = true
for i = 1, 16 do same = same and many[i].hits == 250 and many[i].last == "task " .. i end
print(same, many.hits:sum())

local text = pl.array("string", 1)
text[1] = ("a"):rep(5000)
local before = pl.memory().arrays
text[1] = ""
print(before - pl.memory().arrays >= 3000)
