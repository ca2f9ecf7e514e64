-- __call, __tostring, __name, __metatable, __pairs, __len in the library.
local callee = setmetatable({}, { __call = function(self, ...) return type(self), select("#", ...), ... end })
print(callee()); print(callee(1)); print(callee(nil, nil)); print(callee(table.unpack({ 1, 2, 3 })))
print((callee(5)), pcall(callee, 1), select(3, callee("x")))
-- chains of __call
local c1 = setmetatable({ n = 1 }, { __call = function(self, ...) return "c1", self.n, ... end })
local c2 = setmetatable({ n = 2 }, { __call = c1 })
local c3 = setmetatable({ n = 3 }, { __call = c2 })
local function sh(...) local r = {}; for i = 1, select("#", ...) do local v = select(i, ...); r[i] = type(v) == "table" and "t" .. v.n or tostring(v) end return table.concat(r, " ") end
print(sh(c1("a"))); print(sh(c2("a"))); print(sh(c3("a", "b")))
-- as iterator, comparator, callback, thread body, message handler, finaliser-like
local i = 0
for v in setmetatable({}, { __call = function(self, s, c) i = i + 1; if i <= 3 then return i end end }) do io.write(v, " ") end print()
local t = { 3, 1, 2 }
print(pcall(table.sort, t, setmetatable({}, { __call = function(_, a, b) return a > b end })))
print(("abc"):gsub("%w", setmetatable({}, { __call = function() return "never: a table is looked up" end })))
print(pcall(coroutine.wrap, setmetatable({}, { __call = function() end })))
print(pcall(xpcall, error, setmetatable({}, { __call = function(_, m) return "handled " .. tostring(m) end }), "m", 0))
-- tail calls through __call
local function tc(n) if n == 0 then return "done" end return setmetatable({}, { __call = function(_, m) return tc(m) end })(n - 1) end
print(tc(1000))
-- what cannot be called
print(pcall(function() local t = {}; t() end)); print(pcall(function() local t = { x = 5 }; t.x() end)); print(pcall(function() undefinedfn() end)); print(pcall(function() ("x")() end))
print(pcall(function() local s = "x"; s:nomethod() end)); print(pcall(function() return setmetatable({}, { __call = 5 })() end)); print(pcall(5)); print(pcall(function() return (1)() end))
print(pcall(function() local t = {}; return t.a.b.c() end)); print(pcall(function() local t = { {} }; t[1]() end))
-- tostring
print(tostring(setmetatable({}, { __tostring = function() return "custom" end })), #tostring(setmetatable({}, { __tostring = function() return "" end })))
print(pcall(tostring, setmetatable({}, { __tostring = function() return 5 end })))
print(pcall(tostring, setmetatable({}, { __tostring = function() return nil end })))
print(pcall(tostring, setmetatable({}, { __tostring = function() error("no", 0) end })))
print((tostring(setmetatable({}, { __name = "My.Type" })):gsub("0x%x+", "PTR")), (tostring(setmetatable({}, { __name = 5 })):gsub("0x%x+", "PTR")))
print(setmetatable({}, { __tostring = function() return "printed" end }), string.format("%s|%10s", setmetatable({}, { __tostring = function() return "fmt" end }), setmetatable({}, { __tostring = function() return "fmt" end })))
print(pcall(string.format, "%d", setmetatable({}, { __name = "My.Type" }))); print(pcall(string.rep, setmetatable({}, { __name = "My.Type" }), 2)); print(pcall(ipairs))
-- __metatable
local prot = setmetatable({}, { __metatable = "locked" })
print(getmetatable(prot), pcall(setmetatable, prot, {})); print(pcall(setmetatable, prot, nil))
print(getmetatable(setmetatable({}, { __metatable = false })), getmetatable("").__index == string, getmetatable("").__name, type(debug.getmetatable(prot)))
print(pcall(setmetatable, {}, 5)); print(pcall(setmetatable, 5, {})); print(pcall(setmetatable, {})); print(getmetatable({}), getmetatable(5), pcall(getmetatable))
-- __pairs
local pp = setmetatable({}, { __pairs = function(t) return function(_, k) k = (k or 0) + 1; if k <= 3 then return k, k * k end end, t, nil end })
for k, v in pairs(pp) do io.write(k, "=", v, " ") end print()
print(select("#", pairs(pp)), select("#", pairs {}), pcall(pairs)); print(pcall(pairs, nil)); print(pcall(pairs, 5))
print(select("#", pairs(setmetatable({}, { __pairs = function() return 1, 2, 3, 4, 5 end }))), select("#", pairs(setmetatable({}, { __pairs = function() end }))))
-- ipairs respects __index
local ip = setmetatable({}, { __index = function(_, i) if i <= 4 then return i * 10 end end })
for i, v in ipairs(ip) do io.write(i, "=", v, " ") end print()
print(#ip, next(ip), rawlen(ip))
-- __len in table functions, unpack, and with odd results
local l3 = setmetatable({ "a", "b", "c", "d" }, { __len = function() return 3 end })
print(#l3, rawlen(l3), table.unpack(l3)); print(table.concat(l3, ",")); table.insert(l3, "x"); print(l3[4], table.remove(l3), l3[3])
print(pcall(table.concat, setmetatable({}, { __len = function() return "x" end }))); print(pcall(table.unpack, setmetatable({}, { __len = function() return 1.5 end }))); print(pcall(table.concat, setmetatable({}, { __len = function() return "2" end, __index = function() return "i" end })))
print(table.concat(setmetatable({}, { __len = function() return 3 end, __index = function(_, i) return "v" .. i end }), " "))
-- __mode, __gc, __close and unknown fields are just fields
print(getmetatable(setmetatable({}, { __unknown = 1 })).__unknown)
-- inheritance by copying metatables
local base = { __add = function(a, b) return "add" end, __tostring = function() return "base" end }
local derived = {}; for k, v in pairs(base) do derived[k] = v end; derived.__tostring = function() return "derived" end
print(setmetatable({}, derived) + 1, tostring(setmetatable({}, derived)))
-- a metamethod that yields results through select
print(select("#", (function() return callee(1, nil, nil) end)()))
-- __index on a function value's result used as a method
local obj = setmetatable({}, { __index = function(t, k) return function(self, ...) return k, self == t, ... end end })
print(obj:anything(1, 2)); print(obj.other(obj, 3)); print(obj["with space"](nil))
-- default values
local def = setmetatable({}, { __index = function() return 0 end })
for w in ("a b a c b a"):gmatch("%a") do def[w] = def[w] + 1 end
print(def.a, def.b, def.c, def.d, rawget(def, "d"))
-- memoise with __index writing to itself
local memo = setmetatable({}, { __index = function(t, n) local v = n < 2 and n or t[n - 1] + t[n - 2]; rawset(t, n, v); return v end })
print(memo[50], memo[90])
