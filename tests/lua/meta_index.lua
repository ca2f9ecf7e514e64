-- __index and __newindex: tables, functions, chains, raw access, other types.
local a = { x = 1 }
local b = setmetatable({ y = 2 }, { __index = a })
local c = setmetatable({ z = 3 }, { __index = b })
print(c.x, c.y, c.z, c.w, rawget(c, "x"), rawget(c, "z"))
a.w = "late"
print(c.w)
local log = {}
local f = setmetatable({}, { __index = function(t, k) log[#log + 1] = tostring(k); return k .. "!" end })
print(f.a, f["b"], f[1], f[1.5], table.concat(log, ","))
local d = setmetatable({}, { __index = f })
print(d.q, (d.r))
-- function in the middle returns only one value
local m = setmetatable({}, { __index = function() return 1, 2, 3 end })
print(m.x, (m.y))
print(select("#", m.z))
-- __newindex
local store = {}
local n = setmetatable({ have = 1 }, { __newindex = store })
n.have = 2; n.new = 3
print(n.have, rawget(n, "new"), store.new, store.have)
local calls = {}
local p = setmetatable({}, { __newindex = function(t, k, v) calls[#calls + 1] = k .. "=" .. tostring(v); rawset(t, k, v) end })
p.a = 1; p.a = 2; p.b = nil; p.b = nil; p[1] = "x"; p[1] = "y"
print(table.concat(calls, " "), p.a, p[1])
-- chain of __newindex
local last = {}
local mid = setmetatable({}, { __newindex = last })
local first = setmetatable({}, { __newindex = mid })
first.k = "v"
print(rawget(first, "k"), rawget(mid, "k"), rawget(last, "k"))
mid.k = nil; last.k = nil
-- both, keeping the table always empty: a proxy
local function proxy(t)
  local reads, writes = 0, 0
  return setmetatable({}, {
    __index = function(_, k) reads = reads + 1; return t[k] end,
    __newindex = function(_, k, v) writes = writes + 1; t[k] = v end,
    __len = function() return #t end,
    __call = function() return reads, writes end,
  })
end
local px = proxy {}
for i = 1, 10 do px[i] = i * i end
for i = 1, 10 do px[i] = px[i] + 1 end
print(#px, px[10], px())
-- self-referring class tables
local Animal = {}; Animal.__index = Animal
function Animal.new(name) return setmetatable({ name = name }, Animal) end
function Animal:speak() return self.name .. " makes a sound" end
function Animal:kind() return "animal" end
local Dog = setmetatable({}, { __index = Animal }); Dog.__index = Dog
function Dog.new(name) local d = Animal.new(name); return setmetatable(d, Dog) end
function Dog:speak() return Animal.speak(self) .. ": woof" end
local Puppy = setmetatable({}, { __index = Dog }); Puppy.__index = Puppy
local pup = setmetatable({ name = "Rex" }, Puppy)
print(pup:speak(), pup:kind(), Dog.new("Fido"):speak())
for i = 1, 3 do
  if i == 2 then function Puppy:kind() return "puppy" end end
  if i == 3 then Puppy.kind = nil; function Animal:kind() return "beast" end end
  print(i, pup:kind())
end
pup.kind = function() return "own" end
print(pup:kind()); pup.kind = nil; print(pup:kind())
-- strings have one
print(("abc"):upper(), ("x").rep("y", 3), #("abc"):rep(2), pcall(function() return ("x").nope end))
print(pcall(function() return ("x"):nope() end))
print(pcall(function() return ("x").y.z end))
-- what cannot be indexed
print(pcall(function() return (nil).x end))
print(pcall(function() local t = {}; return t.x.y end))
print(pcall(function() local t = {}; t.x.y = 1 end))
print(pcall(function() return (5).x end))
print(pcall(function() return (true)[1] end))
print(pcall(function() local s = "x"; s.y = 1 end))
-- loops
local loop = {}; setmetatable(loop, { __index = loop })
print(pcall(function() return loop.x end))
local loop2 = setmetatable({}, {}); getmetatable(loop2).__newindex = loop2
print(pcall(function() loop2.x = 1 end))
-- a long chain that is no loop
local deep = { v = "deep" }
for i = 1, 100 do deep = setmetatable({}, { __index = deep }) end
print(deep.v, deep.w)
-- __index that is not callable nor a table
print(pcall(function() return setmetatable({}, { __index = 5 }).x end))
print(pcall(function() return setmetatable({}, { __index = "str" }).len end))
-- metatable changed while in use
local t = setmetatable({}, { __index = function() return "first" end })
print(t.x); setmetatable(t, { __index = function() return "second" end }); print(t.x); setmetatable(t, nil); print(t.x)
local mt = {}; setmetatable(t, mt); print(t.y); mt.__index = { y = "added" }; print(t.y); mt.__index = nil; print(t.y)
mt.__newindex = function() error("read only", 2) end
print(pcall(function() t.z = 1 end))
print(pcall(function() t[1] = 1 end))
rawset(t, "z", 5); t.z = 6; print(t.z)
-- globals
setmetatable(_G, { __index = function(_, k) return "global " .. k end, __newindex = function(_, k, v) rawset(_G, k, v and v * 2) end })
print(undefinedname); newglobal = 21; print(newglobal, rawget(_G, "newglobal"))
setmetatable(_G, nil); print(undefinedname)
-- nil and NaN keys
print(pcall(function() local t = {}; t[nil] = 1 end))
print(pcall(function() local t = {}; t[0/0] = 1 end))
print(({})[nil], ({})[0/0], rawget({}, nil))
print(pcall(rawset, {}, nil, 1))
local nk = setmetatable({}, { __newindex = function(t, k, v) print("newindex", k, v) end })
nk[nil] = 1
print(pcall(rawget, 1, 2)); print(pcall(rawset, 1, 2, 3)); print(pcall(rawlen, 5)); print(rawlen({ 1, 2 }), rawlen("abc"), rawequal(a, a), rawequal("a", "a"), rawequal({}, {}))
