-- Every value that a native returns, used as a key, and compared with one that was made in another way: a value whose
-- two words do not fit each other is found by one and not by the other.
math.randomseed(seed)
local random = math.random
local print_result = io.write
local text = { "", "a", "b", "k", "key", "10", "0x10", "1e2", " 7 ", "nan", "a,b", "x.y", "%a", "(a)", "\0", ("long"):rep(20) }
local numbers = { 0, -0.0, 1, -1, 2, 3, 7, 2.0, 0.5, -2.5, 1e15, 2^53, 2^63, -2^63, math.maxinteger, math.mininteger, 1/0, -1/0, 0/0 }
local co = coroutine.create(function() while true do coroutine.yield(true, nil, false, 1.0) end end)

local function value(depth)
  local k = random(1, depth > 1 and 6 or 9)
  if k <= 2 then return numbers[random(#numbers)]
  elseif k <= 4 then return text[random(#text)]
  elseif k == 5 then return random(2) == 1
  elseif k == 6 then return nil
  elseif k == 7 then
    local t = {}
    for i = 1, random(0, 4) do t[i] = value(depth + 1) end
    return t
  elseif k == 8 then return function(...) return ... end
  end
  return co
end

local chosen = {}
local skipped = {
  ["os.exit"] = true, ["os.execute"] = true, ["os.remove"] = true, ["os.rename"] = true, ["os.tmpname"] = true,
  ["io.popen"] = true, ["io.open"] = true, ["io.output"] = true, ["io.input"] = true, ["io.lines"] = true, ["io.write"] = true,
  ["io.read"] = true, ["io.close"] = true, ["io.tmpfile"] = true, ["debug.debug"] = true, ["debug.sethook"] = true,
  ["debug.setmetatable"] = true, ["debug.setlocal"] = true, ["debug.setupvalue"] = true, ["debug.upvaluejoin"] = true,
  ["debug.getregistry"] = true, ["debug.setuservalue"] = true, ["debug.setcstacklimit"] = true, ["math.randomseed"] = true,
  ["coroutine.wrap"] = true, ["_G.print"] = true, ["_G.warn"] = true, ["_G.dofile"] = true, ["_G.loadfile"] = true, ["_G.require"] = true,
  ["_G.setmetatable"] = true, ["_G.collectgarbage"] = true, ["string.rep"] = true, ["package.loadlib"] = true, ["debug.getmetatable"] = true,
  ["_G.getmetatable"] = true, ["coroutine.yield"] = true, ["coroutine.running"] = true,
}
for _, library in ipairs { "_G", "string", "table", "math", "utf8", "os", "io", "coroutine", "debug", "package" } do
  local names = {}
  for name, f in pairs(_G[library]) do
    if type(f) == "function" and not skipped[library .. "." .. name] then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do chosen[#chosen + 1] = { library .. "." .. name, _G[library][name] } end
end

local bools = { [true] = "T", [false] = "F" }

-- What is wrong with `v`, if anything is.
local function fault(v)
  local kind = type(v)
  if v == nil then
    return kind ~= "nil" and "a nil of another type" or bools[v] ~= nil and "a nil that is a key" or not rawequal(v, nil) and "another nil"
  elseif kind == "boolean" then
    return bools[v] ~= (v and "T" or "F") and "a boolean that is no key" or not rawequal(v, not not v) and "another boolean"
  elseif v ~= v then
    return pcall(rawset, {}, v, 1) and "NaN as a key"
  end
  local t = { [v] = 1 }
  if t[v] ~= 1 or next(t) ~= v then return "a key that is not found" end
  if kind == "string" then
    local half = #v // 2
    if t[table.concat { v:sub(1, half), v:sub(half + 1) }] ~= 1 then return "a string that is not interned" end
  elseif math.type(v) == "integer" then
    if t[v ~ 0] ~= 1 or t[tonumber(("%d"):format(v))] ~= 1 then return "another integer" end
  elseif kind == "number" then
    local same = (v == 1/0 or v == -1/0) and v * 2 or tonumber(("%a"):format(v))
    if t[same] ~= 1 or (math.type(next(t)) == "integer") ~= (math.tointeger(v) ~= nil) then return "another float" end
  end
end

local calls = 0
local function check(name, ...)
  calls = calls + 1
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    local wrong = fault(v)
    if wrong then
      print_result(("%s: result %d is %s\n"):format(name, i, wrong))
      os.exit(1)
    end
  end
end

local ways = {
  function(f, ...) return f(...) end,
  function(f, ...) local a, b, c = f(...) return a, b, c end,
  function(f, ...) return (f(...)) end,
  function(f, ...) local t = { f(...) } return t[1], t[2], t[3] end,
  function(f, ...) local r = table.pack(f(...)) return table.unpack(r, 1, math.min(r.n, 50)) end,
  function(f, ...) return select(1, f(...)) end,
  function(f, ...) return coroutine.wrap(f)(...) end,
  function(f, ...) return coroutine.resume(coroutine.create(f), ...) end,
  function(f, ...) local ok, a, b = pcall(f, ...) return ok, a, b end,
  function(f, ...) local ok = pcall(f, ...) return ok, bools[ok] end,
  function(f, ...) return xpcall(f, function(e) return e end, ...) end,
  function(f, ...) return setmetatable({}, { __call = function(_, ...) return f(...) end })(...) end,
  function(f, a) return setmetatable({}, { __index = function(_, k) return (f(a)) end })[1] end,
  function(f, a) return setmetatable({}, { __unm = function() return (f(a)) end, __len = function() return (f(a)) end }) and -setmetatable({}, { __unm = function() return (f(a)) end }) end,
  function(f, a, b) for x, y in function(_, done) if not done then return true, f(a, b) end end do return x, y end end,
  function(f, ...) local a <const> = f(...) local function g() return a end return g() end,
  function(f, ...) local t = {} t[1], t.x = f(...) return t[1], t.x end,
}

for round = 1, rounds do
  local pick = chosen[random(#chosen)]
  local way = ways[random(#ways)]
  local n = random(0, 4)
  local a, b, c, d = value(0), value(0), value(0), value(0)
  local arguments = table.pack(a, b, c, d)
  check(pick[1], pcall(way, pick[2], table.unpack(arguments, 1, n)))
  if round % 50 == 0 then collectgarbage(random(2) == 1 and "collect" or "step") end
end
print_result("ok\n")
