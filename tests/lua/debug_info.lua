-- debug.getinfo: options, levels, functions, names, lines, errors.
local function dump(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  local out = {}
  for _, k in ipairs(keys) do
    local v = t[k]
    if type(v) == "table" then
      local lines = {}
      for l in pairs(v) do lines[#lines + 1] = l end
      table.sort(lines)
      v = "{" .. table.concat(lines, " ") .. "}"
    elseif type(v) == "function" then
      v = "function"
    end
    out[#out + 1] = k .. "=" .. tostring(v)
  end
  print(table.concat(out, " "))
end

local function three(a, b, ...)
  local c = a

  return c
end
dump(debug.getinfo(three))
dump(debug.getinfo(three, "L"))
dump(debug.getinfo(three, "u"))
dump(debug.getinfo(three, "S"))
dump(debug.getinfo(three, "n"))
dump(debug.getinfo(three, "l"))
dump(debug.getinfo(three, "r"))
dump(debug.getinfo(three, "t"))
dump(debug.getinfo(three, "f"))
dump(debug.getinfo(three, ""))
dump(debug.getinfo(print))
dump(debug.getinfo(print, "SLfu"))
dump(debug.getinfo(1, "Slut"))
dump(debug.getinfo(string.gmatch("a", "a"), "S"))
dump(debug.getinfo(function() return three end, "uSL"))
dump(debug.getinfo(load("return 1", "=name"), "SL"))
dump(debug.getinfo(load("\n\nreturn 1", "text\nmore"), "SL"))
dump(debug.getinfo(load(string.dump(three, true)), "Slu"))

-- names
local function who(level)
  local i = debug.getinfo(level or 2, "nt")
  print(i.name, i.namewhat, i.istailcall)
end
local lo = function() who() end
glo = lo
local t = {f = lo, [1] = lo, m = function() who() end}
lo()
glo()
t.f()
t[1]()
t:m()
local k = "f"
t[k]()
local key <const> = "f"
t[key]();
(function() lo() end)();
(function() who() end)()
pcall(lo)
local function tail() return lo() end
tail()
local function through(f) f() end
through(lo)
for _ in lo do end
do local c <close> = setmetatable({}, {__close = lo}) end
local m = setmetatable({}, {__index = lo, __newindex = lo, __add = lo, __lt = lo, __call = lo, __concat = lo, __eq = lo, __unm = lo})
local _ = m.x
m.x = 1
_ = m + 1
_ = 1 + m
_ = m < m
_ = m .. "x"
_ = m == setmetatable({}, getmetatable(m))
_ = -m
m()
glo = nil
who(1)
print(debug.getinfo(0, "n").name, debug.getinfo(0, "S").what)

-- coroutines
local co = coroutine.create(function(x) coroutine.yield(x) end)
print(debug.getinfo(co, 0))
coroutine.resume(co)
dump(debug.getinfo(co, 0, "nS"))
dump(debug.getinfo(co, 1, "lut"))
print(debug.getinfo(co, 2), debug.getinfo(co, -1))

-- errors
print(debug.getinfo(100), debug.getinfo(-1))
print(pcall(debug.getinfo, 1, "X"))
print(pcall(debug.getinfo, 1, ">S"))
print(pcall(debug.getinfo, {}, "S"))
print(pcall(debug.getinfo, "x"))
print(pcall(debug.getinfo))
print(pcall(debug.getinfo, print, "S?"))
print(pcall(debug.getinfo, 1, {}))
