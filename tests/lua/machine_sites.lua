-- Reads and stores of tables of all kinds, under keys of all kinds, at places that have been compiled for one
-- kind: what comes of it, and what the table has afterwards, as a number that all results make.

local log = {}
local function note(...) log[#log + 1] = table.concat({ ... }, ",") end
local function show(x, d)
  d = d or 0
  local t = math.type(x)
  if t == "float" then return x ~= x and "nan" or string.format("%.17gf", x) end
  if t then return tostring(x) end
  if type(x) == "string" then return '"' .. x .. '"' end
  if type(x) == "table" then
    if d > 1 then return "{..}" end
    local out = {}
    for k, v in next, x do out[#out + 1] = show(k, 2) .. "=" .. show(v, d + 1) end
    table.sort(out)
    return "{" .. table.concat(out, ",") .. "}"
  end
  if type(x) == "function" then return "f" end
  return type(x) == "userdata" and "u" or tostring(x)
end
local function hash(h, s) for i = 1, #s do h = (h * 31 + s:byte(i)) % 1000000007 end return h end
local Class = { kind = "class", [2] = "two" } Class.__index = Class
function Class.m(self, a) return "m", a end
local Sub = setmetatable({ extra = 1 }, { __index = Class }) Sub.__index = Sub
local keyobject = {}
local containers = {
  function() return {} end,
  function() return { 1, 2, 3 } end,
  function() return { 1.5, 2.5, 3.5 } end,
  function() return { true, false, true } end,
  function() return { 1, 2.5, "x" } end,
  function() return { "a", "b", "c", x = 1, m = Class.m } end,
  function() return { x = 1, y = 2 } end,
  function() return { y = 2, x = 1.5, m = function(self, a) return "own", a end } end,
  function() local t = {} for i = 1, 40 do t["k" .. i] = i end t.x = 7 return t end,
  function() local t = {} for i = 1, 8 do t[i] = i end for i = 1, 8 do t[i] = nil end return t end,
  function() return setmetatable({ x = 3, 10, 20 }, Class) end,
  function() return setmetatable({ 10 }, Class) end,
  function() return setmetatable({}, Sub) end,
  function() return setmetatable({ 5 }, { __index = function(_, k) note("index", show(k)) return 99 end }) end,
  function() return setmetatable({ 5 }, { __newindex = function(t, k, v) note("new", show(k), show(v)) rawset(t, k, v) end }) end,
  function() return setmetatable({ 5, 6 }, { __newindex = { }, __index = { x = "proto" } }) end,
  function() return setmetatable({ 1, 2 }, { __len = function() return 7 end, __metatable = 1 }) end,
  function() return { [keyobject] = 1, [1.5] = 2, [true] = 3, [-1] = 4, [2^53] = 5 } end,
  function() return table.pack(1, nil, 3) end,
  function() return "string" end,
  function() return io.stdout end,
  function() return nil end,
  function() return 12 end,
}
local keys = { 1, 2, 3, 4, 0, -1, 1.0, 2.0, 1.5, 2^53, 0/0, "x", "y", "m", "zz", "k7", "1", true, keyobject, math.maxinteger, 1e300 }
local values = { 7, 2.5, true, "s", keyobject }
local NIL = {}
values[#values + 1] = NIL
local ops = {
  get = "r = t[k]", set = "t[k] = v", getx = "r = t.x", setx = "t.x = v", call = "r = t:m(i)", get2 = "r = t[2]", set2 = "t[2] = v", setget = "t[k] = v r = t[k]",
  has = "if t[k] then r = 1 else r = 2 end", inc = "t[k] = (t[k] or 0) + 1", copy = "r = t[k] t[k] = v t[k] = r", two = "r = t.x t.y = r t.x = v", raw = "r = rawget(t, k)",
  eqx = "r = t.x == v", eqk = "r = t[k] == v", cat = "r = t.x .. 'a'", ip = "r = 0 for j, w in ipairs(t) do r = r + j if j > 5 then break end end", pr = "r = 0 for a, b in pairs(t) do r = r + 1 end",
}
local names = {}
for name in pairs(ops) do names[#names + 1] = name end
table.sort(names)
local trained = { 1, 2, 3, 7, 11, 15 }
local tkeys = { 2.0, "x" }
for _, name in ipairs(names) do
  local code = ops[name]
  local by_key = code:find("k]", 1, true) or code:find(", k", 1, true)
  local sums = {}
  for _, kind in ipairs(trained) do
    for _, key in ipairs(by_key and tkeys or { 1 }) do
      local f = load("return function(t, k, v, n) local r for i = 1, n do " .. code .. " end return r end")()
      for i = 1, 40 do pcall(f, containers[kind](), key, name == "inc" and 1 or values[i % 5 + 1], 3) end
      local h = 0
      log = {}
      for at, make in ipairs(containers) do
        for at_key = 1, by_key and #keys or 1 do
          local t, v = make(), values[(at + at_key) % #values + 1]
          if v == NIL then v = nil end
          local ok, r = pcall(f, t, keys[at_key], v, 2)
          local result = ok and show(r) or tostring(r):gsub("^.-:%d+: ", ""):gsub("0x%x+", "")
          h = hash(h, result .. show(t) .. table.concat(log, ";"))
          log = {}
        end
      end
      sums[#sums + 1] = h
    end
  end
  print(name, table.concat(sums, " "))
end
