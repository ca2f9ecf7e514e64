-- Variables that nobody reads any more, but a debugger may ask for: in hot code, in functions that are built in place, at errors, yields, calls and hooks.
local function locals(level)
  local all = {}
  for n = 1, 250 do
    local name, value = debug.getlocal(level + 1, n)
    if not name then break end
    if name:sub(1, 1) ~= "(" then all[#all + 1] = ("%s=%s"):format(name, type(value) == "table" and "table" or tostring(value)) end
  end
  return table.concat(all, " ")
end

-- At a call.
local function show(i) if i == 2500 then print(locals(2)) end end
local function calls(i)
  local sum = i + 1
  local product = sum * 2.5
  local never = product - i
  local t = { i }
  show(i)
  return i
end
for i = 1, 3000 do calls(i) end

-- At an error, several functions deep, by a handler.
local function divide(a, b)
  local quotient = a // b
  local rest = a % b
  return quotient
end
local function middle(i)
  local half = i * 0.5
  local twice = i * 2
  local q = divide(twice, 2600 - i)
  return q + half
end
local function handler(e)
  print((e:gsub("^.-: ", "")))
  for level = 2, 4 do print(level, locals(level)) end
  return "failed"
end
for i = 1, 3000 do
  local square = i * i
  local before = square - i
  local ok, v = xpcall(middle, handler, i)
end

-- In a coroutine that waits.
local function wait(i) if i % 1000 == 0 then coroutine.yield(i) end return i end
local co = coroutine.create(function()
  local total, last = 0, 0.5
  for i = 1, 3000 do
    local own = i * 3
    local other = own - total
    last = last * 0.5 + own
    total = total + wait(i)
  end
  return total
end)
for _ = 1, 3 do
  coroutine.resume(co)
  local all = {}
  for n = 1, 20 do
    local name, value = debug.getlocal(co, 1, n)
    if not name then break end
    if name:sub(1, 1) ~= "(" then all[#all + 1] = name .. "=" .. tostring(value) end
  end
  print(table.concat(all, " "))
end
print(coroutine.resume(co))

-- Set by a debugger: whoever reads them later sees it.
local function change(i) if i == 2000 then debug.setlocal(2, 2, 1000000) end end
local function changed(i)
  local a = i + 1
  local b = a * 2
  change(i)
  return a + b
end
local sum = 0
for i = 1, 3000 do sum = sum + changed(i) end
print(sum)

-- A block's variable ends, another takes its place.
local function blocks(i)
  local r = 0
  do local x = i * 2 r = r + x end
  do local y = { i } r = r + #y end
  do local z = i / 2 show(i) r = r + z end
  return r
end
local all = 0
for i = 1, 3000 do all = all + blocks(i) end
print(all)

-- Temporaries keep nothing alive for longer than the call that they were made in.
local weak = setmetatable({}, { __mode = "v" })
local function make(i) local o = { n = i } weak[i] = o return o end
local function use(i) return make(i).n + make(i + 1).n * 2 end
local n = 0
for i = 1, 6000, 2 do n = n + use(i) end
collectgarbage() collectgarbage()
local left = 0
for _ in pairs(weak) do left = left + 1 end
print(n, left <= 2)
