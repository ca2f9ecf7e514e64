-- Texts that are loaded again: each load gives a function of its own, with upvalues, an environment and
-- variables of its own, whatever is remembered of the text.
local text = "local n = ... ; local function up() n = n + 1 ; count = (count or 0) + 1 return n, count end return up"
local ups, environments = {}, {}
for i = 1, 6 do
  environments[i] = setmetatable({}, { __index = _G })
  local f = assert(load(text, "=again", "t", environments[i]))
  ups[i] = f(i * 10)
end
for i = 1, 6 do
  for _ = 1, i do ups[i]() end
  print(i, ups[i]())
end
print(count, environments[1].count, environments[6].count)
-- Functions are values of their own, and so are closures.
local f, g = load("return function() end"), load("return function() end")
local h = load("return function() end")
print(f ~= g and g ~= h and f() ~= g() and h() ~= h(), type(h()))
local name, value = debug.getupvalue(h, 1)
print(name, value == _G)
debug.setupvalue(h, 1, {})
print(select(2, debug.getupvalue(load("return function() end"), 1)) == _G)
-- The name belongs to the chunk, and is in messages and tracebacks.
for _, chunk in ipairs { "=one", "=two", "=one", "=two", "=one", "@file.lua", "=one", "=two" } do
  local failing = load("local x\nreturn x.y", chunk)
  print(select(2, pcall(failing)), debug.getinfo(failing, "S").source, debug.getinfo(failing, "S").linedefined)
end
-- What a text lacks and what follows it: other texts.
for _ = 1, 4 do
  print(load("return 1")(), load("return 1 ")(), load(" return 1")(), load("return 1;")(), load("return -1")())
end
-- Those that are wrong stay wrong.
for _ = 1, 4 do print(load("return return", "=wrong")) end
-- Modes.
for _ = 1, 4 do
  print(load("return 2", "=m", "t")(), select(2, load("return 2", "=m", "b")), load("return 2", "=m", "bt")())
end
local dumped = string.dump(load("return 2", "=m"))
for _ = 1, 4 do print(load(dumped, "=m", "b")(), select(2, load(dumped, "=m", "t"))) end
-- Readers: whole texts, pieces, ends that come late, errors behind the text.
local function reader(pieces)
  local i = 0
  return function()
    i = i + 1
    local piece = pieces[i]
    if piece == "fail" then error("reader failed", 0) end
    return piece
  end, function() return i end
end
for round = 1, 5 do
  local out = {}
  for _, pieces in ipairs { { "return 3" }, { "return 3", "" }, { "return 3", " + 4" }, { "return 3", "", " + 5" },
    { "ret", "urn 3" }, { "return 3", "fail" }, { "return 3", "4" }, { "return 3 +", " 4", nil } } do
    local read, reads = reader(pieces)
    local function_, message = load(read, "=reader")
    out[#out + 1] = (function_ and tostring(function_()) or tostring(message)) .. "/" .. reads()
  end
  print(round, table.concat(out, " "))
end
-- A text of a reader and one of a string are the same.
for _ = 1, 3 do print(load((reader { "return 'same'" }), "=same")(), load("return 'same'", "=same")()) end
-- Hot functions of a text that is loaded again and again.
local function rounds(n)
  local sum = 0
  for i = 1, n do
    local fold = load("local function f(x) local s = 0 for k = 1, 60 do s = s + k * x end return s end return f", "=hot")()
    for x = 1, 5 do sum = sum + fold(x) end
    if i % 7 == 0 then sum = sum + fold(0.5) end
  end
  return sum
end
print(rounds(400))
-- Hooks see lines, and vararg chunks get what they are called with.
local lines = {}
for _ = 1, 3 do
  local f = load("local a = 1\nlocal b = 2\nreturn a + b, ...", "=lines")
  debug.sethook(function(_, line) lines[#lines + 1] = line end, "l")
  local a, b, c = f("x", "y")
  debug.sethook()
  lines[#lines + 1] = tostring(a) .. b .. c
end
local seen = table.concat(lines, " ")
print((seen:gsub("%f[%d]%d%d+", ""):gsub("%s+", " ")))
-- Many texts, each once; one of them again.
local total = 0
for i = 1, 3000 do
  total = total + load("return " .. i)()
  if i % 3 == 0 then total = total + load("return 1000")() end
end
print(total)
