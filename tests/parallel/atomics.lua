-- Atomics and maps, used by one domain.
local pl = require "perilune"

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  print(ok, message)
end

local n = pl.atomic(5)
print(n:load(), n:add(), n:add(10), n:sub(), n:sub(5), n:max(100), n:min(7), n:exchange(3), n:load())
print(n:cas(3, 4), n:load(), n:cas(3, 5), n:load())
print(n:update(function(v) return v * 10 end), n:load())
refused(function() n:store(1.5) end)
refused(function() n:store("x") end)
refused(function() n:update(function() return nil end) end)
refused(function() n:update(function() error("mine", 0) end) end)
n:store(math.maxinteger)
print(n:add() == math.mininteger)

local any = pl.atomic("text")
print(any:load(), any:cas("text", n), any:load() == n, any:exchange(nil), any:load(), any:exchange(2.5), any:add(1))
refused(function() any:store({}) end)
refused(function() any:store(function() end) end)
any:store(true)
refused(function() any:add(1) end)
print(pl.atomic():load())

local m = pl.map()
print(m:set("a", 1), m:set("a", 2), m:get("a"), m:get("b"), #m)
print(m:add("n"), m:add("n", 2.5), m:add("a", -2), m:cas("a", 0, "zero"), m:cas("a", 0, 1))
print(m:update("u", function(v) return (v or "") .. "x" end), m:update("u", function(v) return v .. "y" end))
m:set(1.0, "one")
print(m:get(1), m:get(1.0), #m)
m:set("a", nil)
print(m:get("a"), #m)
local seen = {}
for k, v in pairs(m) do seen[#seen + 1] = tostring(k) .. "=" .. tostring(v) end
table.sort(seen)
print(table.concat(seen, " "), #m:keys())
for i = 1, 1000 do m:set(i, i * i) end
local count, sum = 0, 0
for k, v in m:pairs() do
  if math.type(k) == "integer" then count, sum = count + 1, sum + v end
end
print(count, sum)
m:clear()
print(#m, next(m:keys()))
refused(function() m:set(nil, 1) end)
refused(function() m:set(0 / 0, 1) end)
refused(function() m:set({}, 1) end)
refused(function() m:set(1, {}) end)
refused(function() m:set("s", "t") m:add("s") end)
refused(function() return m.x.y end)
