-- Library functions that give several values, called in loops that become machine code: as many of the values
-- as are wanted, where they are wanted, and what is out of the ordinary as always.
local function show(...)
  local out = {}
  for i = 1, select("#", ...) do out[i] = tostring((select(i, ...))) end
  print(table.concat(out, " "))
end

-- As many as are wanted, more, and fewer.
local line = "key = value, other = 12"
local function wanted(n)
  local sum, seen = 0, 0
  for i = 1, n do
    line:find("=")
    local a = line:find("=", 1, true)
    local b, c = line:find("=", i % 9 + 1, true)
    local d, e, f = line:find("(%a+) =")
    local g, h, k, l, m = line:find("(%a+)() = (%a+)")
    sum = sum + a + b + c + d + e + g + h + l
    if f == "key" and k == "key" and m == "value" then seen = seen + 1 end
    local o, p, q, r, s, t = line:find("=", 1, true)
    if q == nil and r == nil and s == nil and t == nil then sum = sum + o * p end
  end
  return sum, seen
end
show(wanted(3000))

-- All of them: passed on, returned, counted, put into a table.
local function all(n)
  local sum = 0
  for i = 1, n do
    sum = sum + math.max(line:find("value"))
    sum = sum + select("#", line:match("(%a)(%a)(%a)"))
    local t = { line:find("(o)(t)") }
    sum = sum + #t
    t = { i, line:match("nothing at all") }
    sum = sum + #t + (math.modf(i / 4))
    sum = sum + select("#", math.modf(i / 4))
  end
  return sum
end
show(all(3000))
local function passes(s, p) return s:find(p) end
local function passed(n)
  local sum = 0
  for _ = 1, n do
    local a, b = passes(line, "%d+")
    sum = sum + a + b
  end
  return sum
end
show(passed(3000))

-- Where the search begins; what is no string, or no integer.
local function begins(n)
  local out = {}
  for i = 1, n do
    local init = i % 60 - 30
    local a, b = ("abcabcabc"):find("b", init)
    local c = ("abcabcabc"):match("()c", init)
    local d = ("abcabcabc"):find("", init)
    out[i % 60 + 1] = table.concat({ init, tostring(a), tostring(b), tostring(c), tostring(d) }, ",")
  end
  return table.concat(out, " ")
end
show(begins(3000))
local function coerced(n)
  local sum = 0
  for i = 1, n do
    local subject = i % 100 == 0 and 12321 or "12321"
    local init = i % 70 == 0 and 2.0 or i % 90 == 0 and "2" or 2
    local a, b = string.find(subject, 2, init)
    local c, d = string.match(subject, "(2)(%d)", init)
    sum = sum + a + b + c * d
  end
  return sum
end
show(coerced(3000))

-- More captures than fit, and what is wrong with a pattern.
local letters = "abcdefghijklmnop"
local function many(n)
  local sum = 0
  for i = 1, n do
    local a, b, c, d, e, f, g, h = letters:match("(.)(.)(.)(.)(.)(.)(.)(.)")
    if a .. b .. c .. d .. e .. f .. g .. h == "abcdefgh" then sum = sum + 1 end
    local x, y, p, q, r, s, t, u, v, w = letters:find("(.)(.)(.)(.)(.)(.)(.)(.)")
    if x == 1 and y == 8 and v == "g" and w == "h" then sum = sum + 1 end
    local _, _, _, _, _, _, _, _, i9, i10 = letters:match("(.)(.)(.)(.)(.)(.)(.)(.)(.)()")
    if i9 == "i" and i10 == 10 then sum = sum + 1 end
  end
  return sum
end
show(many(3000))
local function wrong(n, pattern)
  local failed, message = 0, nil
  for i = 1, n do
    local ok, e = pcall(function() local a, b = line:find(i % 50 == 0 and pattern or "k(e)y") return a + b end)
    if not ok then failed, message = failed + 1, e end
  end
  return failed, message
end
for _, pattern in ipairs { "(k", "k)", "[k", "%", "%b", "%f", "(()k", "%1" } do show(wrong(500, pattern)) end
local function misused(n)
  local messages = {}
  for i = 1, n do
    local subject = i % 100 == 0 and {} or line
    local init = i % 130 == 0 and 1.5 or i % 170 == 0 and "x" or 1
    local ok, e = pcall(function()
      local a, b = string.find(subject, "=", init)
      local c, d = subject:match("(%a+) = (%a+)", init)
      return a + b + #c + #d
    end)
    if not ok then messages[e] = (messages[e] or 0) + 1 end
  end
  local out = {}
  for message, times in pairs(messages) do out[#out + 1] = message .. " " .. times end
  table.sort(out)
  print(table.concat(out, "\n"))
end
misused(3000)

-- `next` by hand: all entries, while fields go and change; keys that are not there.
local function entries(n)
  local t = { 1, 2, 3, x = 4, y = 5, [2.5] = 6, [true] = 7 }
  local sum, count = 0, 0
  for i = 1, n do
    local k, v = next(t)
    while k ~= nil do
      sum, count = sum + v, count + 1
      k, v = next(t, k)
    end
    if i == n // 2 then t.x = nil; t[2] = nil end
  end
  return sum, count
end
show(entries(2000))
local function emptied(n)
  local rest = 0
  for i = 1, n do
    local t = {}
    for j = 1, i % 20 do t["k" .. j] = j; t[j] = j end
    local k, v = next(t)
    while k do
      t[k] = nil
      rest = rest + v
      k, v = next(t, k)
    end
    assert(next(t) == nil and not next(t))
  end
  return rest
end
show(emptied(1000))
local function unknown(n)
  local t, failed, message = { a = 1, b = 2 }, 0, nil
  for i = 1, n do
    local ok, e = pcall(function() local k, v = next(t, i % 40 == 0 and "nothing" or nil) return k, v end)
    if not ok then failed, message = failed + 1, e end
    ok, e = pcall(function() local k, v = next(i % 70 == 0 and "text" or t) return k, v end)
    if not ok then failed, message = failed + 1, message .. "; " .. e end
    if #(message or "") > 300 then message = message:sub(1, 120) end
  end
  return failed, (message:gsub("^.-(invalid key[^;]*).*$", "%1"))
end
show(unknown(400))

-- `math.modf`: whole numbers, signs, infinities, texts.
local function fractions(n)
  local out = {}
  local numbers = { 3.25, -3.25, 5, -5, 0.0, -0.0, 1e300, -1e300, 1 / 0, -1 / 0, 0 / 0, "7.5", "8", 2 ^ 53 }
  for i = 1, n do
    local x = numbers[i % #numbers + 1]
    local whole, rest = math.modf(x)
    if rest ~= rest then whole, rest = "nan", "nan" end
    out[i % #numbers + 1] = tostring(whole) .. "/" .. tostring(rest)
  end
  return table.concat(out, " ")
end
show(fractions(3000))

-- `table.unpack`: parts, holes, nothing, more than fit, other objects.
local function unpacks(n)
  local list, sum = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, 0
  local object = setmetatable({}, { __index = function(_, i) return i * 2 end, __len = function() return 3 end })
  for i = 1, n do
    local a, b = table.unpack(list)
    local c, d, e = table.unpack(list, 3, 4)
    sum = sum + a + b + c + d + (e or 100)
    local f = table.unpack(list, 8, 2)
    sum = sum + (f or 1000) + select("#", table.unpack(list, 1, i % 12))
    local g, h, k = table.unpack(i % 50 == 0 and object or list)
    sum = sum + g + h * k + math.max(table.unpack(list, 2.0, 5))
    local l, m = table.unpack(list, math.maxinteger - 1, math.maxinteger)
    assert(l == nil and m == nil)
    local o, p = table.unpack(list, math.mininteger, math.mininteger + 1)
    assert(o == nil and p == nil)
    local q, r, s = table.unpack({ nil, i, nil }, 1, 3)
    assert(q == nil and r == i and s == nil)
  end
  return sum
end
show(unpacks(3000))
local function fails(n)
  local failed, message = 0, nil
  for i = 1, n do
    local from, to = i % 50 == 0 and math.mininteger or 1, i % 50 == 0 and math.maxinteger or 3
    local ok, e = pcall(function() local a, b = table.unpack({ i, i }, from, to) return a + b end)
    if not ok then failed, message = failed + 1, e end
  end
  return failed, message
end
show(fails(500))

-- The values are new strings, and stay while others are made.
local function kept(n)
  local texts = {}
  for i = 1, n do
    local a, b, c = ("n" .. i .. ":" .. i * 7 .. ";" .. i * 13):match("n(%d+):(%d+);(%d+)")
    texts[i % 97 + 1] = a .. "-" .. b .. "-" .. c
    if i % 500 == 0 then collectgarbage("step") end
  end
  return table.concat(texts, " ")
end
show(kept(4000))

-- Another function in its place.
local function replaced(n)
  local f, sum = string.find, 0
  for i = 1, n do
    if i == n // 2 then f = function(s, p) return #s, #p, 1 end end
    if i == n - 10 then f = string.match end
    local a, b = f(line, "(%d)%d")
    sum = sum + (tonumber(a) or 0) + (b or 1000)
  end
  return sum
end
show(replaced(3000))
