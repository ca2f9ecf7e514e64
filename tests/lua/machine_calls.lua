-- Calls of functions of all kinds, at places that have been compiled for one kind: what comes of it.

local function show(...)
  local out = {}
  for i = 1, select("#", ...) do
    local x = select(i, ...)
    local t = math.type(x)
    out[i] = t == "float" and string.format("%.14gf", x) or type(x) == "table" and "t" or type(x) == "function" and "f"
      or type(x) == "thread" and coroutine.status(x) or tostring(x):gsub("^.-:%d+: ", ""):gsub("0x%x+", "")
  end
  return table.concat(out, ",")
end
local function hash(h, s) for i = 1, #s do h = (h * 31 + s:byte(i)) % 1000000007 end return h end
local count = 0
local function upvalues(n) local c = n return function(x) c = c + 1 count = count + 1 return c, x end end
local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
local Class = {} Class.__index = Class
Class.__call = function(self, a, b) return "called", a, b end
function Class.m(self, a, b) return b, a end
local kinds = {
  function() return function() end end,
  function() return function(a) return a end end,
  function() return function(a, b) return b, a end end,
  function() return function(a, b, c, d) return d, c, b, a end end,
  function() return function(...) return ... end end,
  function() return function(a, ...) return select("#", ...), a, ... end end,
  function() return upvalues(3) end,
  function() return function(a) if a == 2 then error("two") end return a end end,
  function() return function(a) error({ a }, 0) end end,
  function() return function(a, b) return deep(3), a end end,
  function() return function(a, b) coroutine.yield("y", a) return a, b end end,
  function() return function(a, ...) local s = 0 for i = 1, 3 do s = s + i end return s, ... end end,
  function() return function(a, b) return math.max(a or 1, 2), select(-1, a, b) end end,
  function() return function(a) return (function(...) return ... end)(a, a) end end,
  function() return function(a) local t <close> = setmetatable({}, { __close = function() count = count + 1 end }) return a, "closed" end end,
  function() return setmetatable({}, Class) end,
  function() return setmetatable({}, { __call = setmetatable({}, Class) }) end,
  function() return math.max end,
  function() return tostring end,
  function() return select end,
  function() return string.rep end,
  function() return type end,
  function() return pcall end,
  function() return coroutine.wrap(function(a, b) while true do a, b = coroutine.yield(b, a) end end) end,
  function() return nil end,
  function() return 7 end,
  function() return {} end,
}
local arguments = { {}, { 1 }, { 2, "x" }, { 1, 2, 3, 4, 5 }, { 2.5 }, { nil, 1, n = 2 }, { "s" } }
local places = {
  one = "r = f(a, b)", none = "f(a, b)", two = "local x, y = f(a, b) r, s = y, x", three = "local x, y, z = f(a) r, s = z, y",
  all = "r = select('#', f(a, b))", pass = "r, s = g(f(a))", list = "local t = { f(a, b) } r, s = #t, t[1]", open = "r, s = f(...)",
  open2 = "r, s = f(a, ...)", protected = "r, s = pcall(f, a, b)", handled = "r, s = xpcall(f, function(e) return 'h' end, a)",
  method = "local o = { m = f } r, s = o:m(a)", loop = "local n = 0 for x, y in f, a, b do n = n + 1 r, s = x, y if n > 2 then break end end",
  truth = "if f(a) then r = 1 else r = 2 end", sum = "r = (r or 0) + (tonumber((f(a))) or 1)", cat = "r = tostring(f(a)) .. 'x'",
  wrapped = "r, s = coroutine.wrap(f)(a, b)", resumed = "local co = coroutine.create(f) local _, x = coroutine.resume(co, a) r, s = x, coroutine.status(co)",
  nested = "r = g(g(f(a, b)))", closure = "local function h(...) return f(...) end r, s = h(a, b)", sorted = "local t = { 3, 1, 2 } table.sort(t, function(x, y) f(x) return x < y end) r = t[1]",
  replaced = "r = string.gsub('ab', '.', f)", field = "local o = setmetatable({}, { __index = f }) r = o[a or 1]",
}
local names = {}
for name in pairs(places) do names[#names + 1] = name end
table.sort(names)
local trained = { 3, 5, 8, 16 }
for _, name in ipairs(names) do
  local sums = {}
  for _, tail in ipairs { "return r, s end", "return g(r, s) end" } do
    for _, kind in ipairs(trained) do
      local run = load("local function g(x, y, ...) return y, x end return function(f, n, ...) local a, b = ... local r, s for i = 1, n do " .. places[name] .. " end " .. tail)()
      local usual = kinds[kind]()
      for i = 1, 40 do pcall(run, usual, 3, 1, i) end
      local h = 0
      for number, make in ipairs(kinds) do
        -- PUC Lua cannot yield there.
        local skipped = number == 11 and (name == "replaced" or name == "sorted")
        for _, list in ipairs(skipped and {} or arguments) do
          local f = make()
          local co = coroutine.create(run)
          local words = show(coroutine.resume(co, f, 2, table.unpack(list, 1, list.n or #list)))
          local n = 0
          while coroutine.status(co) == "suspended" and n < 5 do
            words = words .. ";" .. show(coroutine.resume(co, n, "again"))
            n = n + 1
          end
          h = hash(h, words .. count .. show(pcall(run, make(), 2, table.unpack(list, 1, list.n or #list))))
        end
      end
      sums[#sums + 1] = h
    end
  end
  print(name, count, table.concat(sums, " "))
end
