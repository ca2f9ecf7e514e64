-- Whatever an operation yields is the key that a literal of the same value is.
local name = { [true] = "true", [false] = "false", [1] = "one", [2.5] = "float", ["s"] = "string" }
local function show(what, ...)
  local out = {}
  for i = 1, select("#", ...) do
    local v = (select(i, ...))
    out[i] = v == nil and "nil" or tostring(name[v])
  end
  print(what, table.concat(out, " "))
end

local function none() end
local function fail() error("s", 0) end
local function echo(...) return ... end

-- Protected calls, quick and not.
for _ = 1, 3 do
  local ok = pcall(none)
  show("pcall", ok)
  local ok2, v = pcall(echo, 1)
  show("pcall value", ok2, v)
  local bad, msg = pcall(fail)
  show("pcall error", bad, msg)
  local x, y = xpcall(echo, print, 2.5)
  show("xpcall", x, y)
  local a, b, c = pcall(none)
  show("pcall padded", a, b, c)
end
do
  local r = { pcall(echo, true, false) }
  show("pcall all", table.unpack(r))
end

-- Coroutines.
local co = coroutine.create(function(...)
  local v = ...
  while true do v = coroutine.yield(v) end
end)
for _, v in ipairs { true, 1, "s", 2.5 } do
  local ok, back = coroutine.resume(co, v)
  show("resume", ok, back)
  local only = coroutine.resume(co, v)
  show("resume one", only)
  local p, q, r = coroutine.resume(co)
  show("resume padded", p, q, r)
end
local w = coroutine.wrap(function() while true do coroutine.yield(true) coroutine.yield() end end)
for _ = 1, 3 do show("wrap", w(), (w())) end

-- Results that are missing, parameters that are missing.
local function two(a, b) return a == nil and true, b == nil and true end
show("parameters", two())
show("parameters", two(1))
local n1, n2 = echo(true)
show("results", n1, n2)
local mt = setmetatable({}, {
  __index = function() end, __eq = function() return 1 end, __lt = function() return false end,
  __le = function() return "s" end, __add = function() end, __len = function() return true end,
  __concat = function() return false end, __unm = function() return true end, __call = function(_, v) return v end,
})
local mt2 = setmetatable({}, getmetatable(mt))
show("metamethods", mt.x, mt == mt2, mt < mt2, mt <= mt2, mt + 1, #mt, mt .. "x", -mt, mt(true))
show("operators", not nil, not 1, 1 == 1, 1 < 0, nil == false, "s" == "s", not not mt.x)
show("and or", nil and true, false or true, 1 and false, nil or false)
show("vararg", (select(2, false, true)), (select(-1, true)))
local function va(...) local a, b, c = ... return a, b, c end
show("vararg padded", va(true))
show("rawequal", rawequal(mt, mt), rawequal(1, 2), rawget({}, 1), rawget({ true }, 1))
show("next", next({ [true] = false }))

-- Traversals: the keys that they give are keys.
local t = { true, false, 1, x = "s", [true] = 2.5, [false] = 1, [2.5] = true }
local count = 0
for k, v in pairs(t) do
  assert(rawequal(t[k], v))
  assert(({ [k] = k })[k] == k and ({ [v] = v })[v] == v)
  count = count + 1
end
print("pairs", count)
for i, v in ipairs(t) do assert(rawequal(t[i], v)); show("ipairs", v) end
for k, v, none1, none2 in next, { true } do show("next padded", k, v, none1, none2) end
for k, v in pairs(setmetatable({}, { __pairs = function(s) return next, { [true] = false }, nil end })) do show("__pairs", k, v) end

-- The hidden variables of a loop, and a nil in the place of its closing value.
for k in next, { 1 }, nil, nil do
  local i, hidden = 1, {}
  repeat
    local name, v = debug.getlocal(1, i)
    if name == "(for state)" then hidden[#hidden + 1] = type(v) end
    i = i + 1
  until not name
  print("state", table.concat(hidden, " "))
end
for i = 1, 2 do
  local t2 = { [i] = "i" }
  assert(t2[i] == "i" and ({ [i + 0.0] = true })[i])
end
for x = 1.0, 2 do show("float loop", x) end
