-- __eq, __lt, __le: when they are called, with what, and what is made of the result.
local mt = {}
local log = {}
mt.__eq = function(a, b) log[#log + 1] = "eq" .. a.v .. b.v; return a.v == b.v end
mt.__lt = function(a, b) log[#log + 1] = "lt"; a = type(a) == "table" and a.v or a; b = type(b) == "table" and b.v or b; return a < b end
mt.__le = function(a, b) log[#log + 1] = "le"; a = type(a) == "table" and a.v or a; b = type(b) == "table" and b.v or b; return a <= b end
local function new(v) return setmetatable({ v = v }, mt) end
local a, a2, b = new(1), new(1), new(2)
local function flush() print("  " .. table.concat(log, " ")); log = {} end
print(a == a, a == a2, a == b, a ~= a2, a ~= b); flush()
print(a < b, b < a, a <= b, a <= a2, a > b, a >= b, b > a, b >= a); flush()
print(a == 1, a == "x", a == nil, 1 == a, a ~= nil); flush()
print(a < 5, 5 < a, a <= 1, 1 <= a, a > 0, 0 > a, a < 1.5, 1.5 < a, a >= 1); flush()
print(rawequal(a, a2), rawequal(a, a)); flush()
-- in conditions
if a == a2 then print "equal" end
if a ~= b then print "different" end
if not (a < b) then print "no" else print "less" end
local n = 0; local i = new(0)
while i < 5 do i = new(i.v + 1); n = n + 1 end
print(n); log = {}
-- the result is converted to a boolean
local odd = setmetatable({}, { __lt = function() return "yes" end, __le = function() return nil end, __eq = function() return 0 end })
print(odd < 1, odd <= 1, odd == setmetatable({}, getmetatable(odd)), odd > 1, odd >= 1, not (odd < 1))
-- different metatables: the first one's is tried first
local x = setmetatable({}, { __lt = function() return true end, __eq = function() return true end })
local y = setmetatable({}, { __lt = function() return false end, __eq = function() return false end })
print(x < y, y < x, x == y, y == x, x > y, y > x)
local z = setmetatable({}, {})
print(z == x, x == z, z < x, x < z)
print(pcall(function() return {} < {} end))
print(pcall(function() return {} < 1 end))
print(pcall(function() return 1 < {} end))
print(pcall(function() return 1 < "x" end))
print(pcall(function() return "x" < 1 end))
print(pcall(function() return nil < 1 end))
print(pcall(function() return nil < nil end))
print(pcall(function() return true < false end))
print(pcall(function() return print < print end))
print(pcall(function() return {} >= {} end))
print(pcall(function() return setmetatable({}, { __name = "T1" }) < setmetatable({}, { __name = "T2" }) end))
print(pcall(function() return setmetatable({}, { __name = "T1" }) < setmetatable({}, { __name = "T1" }) end))
print(pcall(function() return setmetatable({}, { __name = 5 }) < 1 end))
-- equality of different kinds never calls
print(setmetatable({}, { __eq = function() error "called" end }) == 1, setmetatable({}, { __eq = function() error "called" end }) == "s")
print(pcall(function() return setmetatable({}, { __eq = function() error("called", 0) end }) == {} end))
-- sort with __lt
local list = {}
for i, v in ipairs { 5, 3, 9, 1, 7, 2, 8 } do list[i] = new(v) end
table.sort(list)
for i, v in ipairs(list) do io.write(v.v, " ") end print()
table.sort(list, function(p, q) return q < p end)
for i, v in ipairs(list) do io.write(v.v, " ") end print()
log = {}
-- sets with subset order
local Set = {}; Set.__index = Set
local function set(t) local s = {}; for _, v in ipairs(t) do s[v] = true end; return setmetatable(s, Set) end
Set.__le = function(p, q) for k in pairs(p) do if not q[k] then return false end end return true end
Set.__lt = function(p, q) return p <= q and not (q <= p) end
Set.__eq = function(p, q) return p <= q and q <= p end
local s1, s2, s3 = set { 1, 2 }, set { 1, 2, 3 }, set { 2, 1 }
print(s1 <= s2, s2 <= s1, s1 < s2, s1 < s3, s1 <= s3, s1 == s3, s1 == s2, s1 ~= s2, s1 >= s3, s1 > s3)
-- keys in tables compare raw
local t = { [a] = "one" }
print(t[a], t[a2])
-- equality against nil and false stored in variables
local nilv, falsev = nil, false
print(a == nilv, falsev == nilv, nilv == nil, falsev == false)
-- errors inside
print(pcall(function() return setmetatable({}, { __lt = function() error("in lt", 0) end }) < 1 end))
print(pcall(function() return setmetatable({}, { __lt = 5 }) < 1 end))
print(pcall(function() return setmetatable({}, { __le = {} }) <= 1 end))
