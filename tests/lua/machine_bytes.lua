-- s:sub(i, i) in machine code: positions of all kinds, bytes of all kinds, strings that have been collected.
local function bytes(s)
  local out = {}
  for i = 1, #s do out[i] = s:sub(i, i) end
  return table.concat(out, "|")
end
for _ = 1, 60 do bytes("hello") end
print(bytes("hello"), #bytes("\0\255\128\n"), bytes("") == "")

local every = {}
for b = 0, 255 do every[b + 1] = string.char(b) end
every = table.concat(every)
local function all(s)
  local bad = 0
  for i = 1, #s do
    local c = s:sub(i, i)
    if #c ~= 1 or c:byte() ~= i - 1 then bad = bad + 1 end
  end
  return bad
end
for round = 1, 20 do
  if round % 3 == 0 then collectgarbage() end
  assert(all(every) == 0)
end

local function ends(s, from, to)
  local n, list = 0, {}
  for i = from, to do
    local c = string.sub(s, i, i)
    if c == "" then n = n + 1 else list[#list + 1] = c end
  end
  return n, table.concat(list)
end
for _ = 1, 40 do ends("abc", 1, 3) end
print(ends("abc", -5, 5))
print(ends("", -2, 2))
print(ends("x", math.mininteger, math.mininteger + 3), ends("x", math.maxinteger - 2, math.maxinteger))

-- Numbers have the method, too; others have one of their own.
local function first(v) local i = 1 return v:sub(i, i) end
local mine = setmetatable({}, { __index = { sub = function(_, a, b) return a + b end } })
local list = {}
for i = 1, 120 do list[i] = i % 3 == 0 and (12 + i) or i % 3 == 1 and "text" or mine end
local seen = {}
for i = 1, #list do
  local ok, c = pcall(first, list[i])
  seen[tostring(ok) .. ":" .. (ok and tostring(c) or c:match("index a number value") or c)] = true
end
local keys = {}
for k in pairs(seen) do keys[#keys + 1] = k end
table.sort(keys)
print(table.concat(keys, " "))

-- Words by bytes, as programs do it.
local function words(text)
  local i, n, longest = 1, 0, ""
  while i <= #text do
    while i <= #text and text:sub(i, i) == " " do i = i + 1 end
    local from = i
    while i <= #text and text:sub(i, i) ~= " " do i = i + 1 end
    if i > from then
      n = n + 1
      local word = text:sub(from, i - 1)
      if #word > #longest then longest = word end
    end
  end
  return n, longest
end
local text = ("the quick brown fox jumps over it "):rep(20)
for _ = 1, 5 do words(text) end
print(words(text))

-- The function is another one from some time on.
local sub, calls = string.sub, 0
local function through(s, i) return string.sub(s, i, i) end
local joined = {}
for i = 1, 300 do
  if i == 200 then string.sub = function(s, a, b) calls = calls + 1 return sub(s, a, b):upper() end end
  joined[#joined + 1] = through("abcdef", i % 6 + 1)
end
string.sub = sub
print(calls, table.concat(joined, "", 190, 210))
