-- Arithmetic, bitwise, concatenation and length metamethods: which operand, which order.
local ops = { "add", "sub", "mul", "div", "mod", "pow", "unm", "idiv", "band", "bor", "bxor", "shl", "shr", "bnot", "concat", "len" }
local mt = { __name = "Obj" }
local function show(v) return type(v) == "table" and v.name or tostring(v) end
for _, op in ipairs(ops) do
  mt["__" .. op] = function(x, y) return op .. "(" .. show(x) .. "," .. show(y) .. ")" end
end
local A = setmetatable({ name = "A" }, mt)
local B = setmetatable({ name = "B" }, mt)
print(A + B, A + 1, 1 + A, A + 1.5, 2.5 + A, A + "x", "x" + A, A + nil, nil + A, A + true)
print(A - B, A - 1, 1 - A, A * 2, 2 * A, A / 2, 2 / A, A % 2, 2 % A, A ^ 2, 2 ^ A, A // 2, 2 // A)
print(A & B, A & 1, 1 & A, A | 1, 1 | A, A ~ 1, 1 ~ A, A << 1, 1 << A, A >> 1, 1 >> A, A & 1.5, 1.5 | A, A & "x")
print(-A, ~A, #A)
print(A .. B, A .. "s", "s" .. A, A .. 1, 1 .. A, A .. nil, 1.5 .. A, "a" .. "b" .. A, A .. "a" .. "b", "a" .. A .. "b")
local k = 10
print(A + k, k + A, A - k, k - A, A << k, k << A, A // k, k // A)
-- the first operand's metamethod wins
local m1 = setmetatable({}, { __add = function() return "first" end })
local m2 = setmetatable({}, { __add = function() return "second" end, __sub = function() return "second sub" end })
print(m1 + m2, m2 + m1, m1 - m2, m2 - m1, 1 + m2, m2 + 1, "1" + m2)
-- results are adjusted to one value
local mv = setmetatable({}, { __add = function() return 1, 2, 3 end, __sub = function() end, __unm = function() return 7, 8 end, __len = function() return "five", 5 end, __concat = function() return nil, 1 end })
print(mv + 1, (mv + 1)); print(mv - 1); print(-mv); print(#mv); print(mv .. "")
-- a Vector class
local V = {}; V.__index = V
local function vec(x, y) return setmetatable({ x = x, y = y }, V) end
V.__add = function(a, b) return vec(a.x + b.x, a.y + b.y) end
V.__sub = function(a, b) return vec(a.x - b.x, a.y - b.y) end
V.__mul = function(a, b) if type(a) == "number" then return vec(a * b.x, a * b.y) elseif type(b) == "number" then return vec(a.x * b, a.y * b) else return a.x * b.x + a.y * b.y end end
V.__unm = function(a) return vec(-a.x, -a.y) end
V.__eq = function(a, b) return a.x == b.x and a.y == b.y end
V.__tostring = function(a) return "(" .. a.x .. "," .. a.y .. ")" end
V.__len = function(a) return math.floor((a.x ^ 2 + a.y ^ 2) ^ 0.5) end
V.__concat = function(a, b) return tostring(a) .. tostring(b) end
V.__idiv = function(a, n) return vec(a.x // n, a.y // n) end
V.__mod = function(a, n) return vec(a.x % n, a.y % n) end
local p, q = vec(1, 2), vec(3, 4)
print(tostring(p + q), tostring(q - p), p * q, tostring(p * 3), tostring(3 * p), tostring(-p), #q, p == vec(1, 2), p == q, p ~= q, p .. q, p .. " and " .. q, tostring(q // 2), tostring(q % 2))
local acc = vec(0, 0)
for i = 1, 100 do acc = acc + vec(i, -i) * 2 end
print(tostring(acc))
-- concatenation is right associative and only falls back pairwise
local trace = {}
local C = setmetatable({}, { __concat = function(a, b) trace[#trace + 1] = (type(a) == "table" and "C" or a) .. "|" .. (type(b) == "table" and "C" or b); return "R" end })
print("a" .. "b" .. C .. "c" .. "d", table.concat(trace, " "))
trace = {}
print(1 .. 2 .. C .. 3 .. 4, table.concat(trace, " "))
-- errors
print(pcall(function() return {} + 1 end))
print(pcall(function() return A .. {} end))
print(pcall(function() return setmetatable({}, { __name = "My Type" }) + 1 end))
print(pcall(function() return 1 + setmetatable({}, { __name = "My Type" }) end))
print(pcall(function() return #5 end)); print(pcall(function() local x; return #x end))
print(pcall(function() return -{} end)); print(pcall(function() return ~{} end))
print(pcall(function() return setmetatable({}, { __add = 5 }) + 1 end))
print(pcall(function() return setmetatable({}, { __add = {} }) + 1 end))
print(pcall(function() return setmetatable({}, { __unm = "x" }) .. "x" end))
-- a callable table as metamethod
local callable = setmetatable({}, { __call = function(self, a, b) return "called with " .. show(a) .. " " .. show(b) end })
print(setmetatable({ name = "T" }, { __add = callable }) + 5)
-- the metamethod may be removed or added later
local dyn = setmetatable({}, {})
print(pcall(function() return dyn + 1 end))
getmetatable(dyn).__add = function() return "now" end
print(dyn + 1)
getmetatable(dyn).__add = nil
print(pcall(function() return dyn + 1 end))
-- metamethods on numbers, through the debug library
debug.setmetatable(0, { __call = function(n, x) return n * x end, __index = function(n, k) return k .. n end, __len = function(n) return n + 1 end, __concat = function(a, b) return "never" end })
print((5)(3), (5).abc, #10, 1 .. 2); debug.setmetatable(0, nil)
debug.setmetatable(nil, { __add = function(a, b) return "nil add" end, __index = function() return "nil index" end, __call = function(...) return select("#", ...) end })
print(nil + 1, (nil).x, (nil)(1, 2), undefined.y.z); debug.setmetatable(nil, nil)
debug.setmetatable(true, { __unm = function(b) return not b end, __bor = function(a, b) return a or b end }); print(-true, -false, false | true); debug.setmetatable(true, nil)
debug.setmetatable(print, { __concat = function(a, b) return "fn" end, __index = { name = "func" } }); print(print .. 1, print.name, (function() end).name); debug.setmetatable(print, nil)
print(pcall(function() return (5).x end))
