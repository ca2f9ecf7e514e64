-- Integers that come and go beyond the array part: each is there exactly as long as it should be.
local function count(t)
  local n, sum = 0, 0
  for k, v in pairs(t) do n, sum = n + 1, sum + v end
  return n, sum
end

-- A window that moves: most stores find a free node of a key that has gone.
local t = {}
for i = 1, 5000 do
  t[i * 1000] = i
  t[(i - 50) * 1000] = nil
end
print(count(t))
for i = 4951, 5000 do assert(t[i * 1000] == i) end

-- All of them, then none, in turns.
for round = 1, 3 do
  local u = {}
  for i = 1, 300 do u[i * 1000] = i end
  for i = 1, 300, 2 do u[i * 1000] = nil end
  for i = 1, 300 do u[-i] = i end
  print(round, count(u))
end

-- Nil where nothing is.
local e = {}
e[1 << 40] = nil
e[-1] = nil
e[math.mininteger] = nil
print(next(e), #e)

-- Around the end of the array part: the place behind it, and the one behind that.
for n = 0, 9 do
  local a = {}
  for i = 1, n do a[i] = i end
  a[n + 2] = -2
  a[n + 1] = -1
  a[n + 3] = -3
  local all = {}
  for i = -1, n + 4 do all[#all + 1] = tostring(a[i]) end
  print(n, table.concat(all, " "), count(a))
end

-- Extremes.
local x = {}
for _, k in ipairs { math.maxinteger, math.mininteger, 0, -1, 1 << 31, 1 << 32, (1 << 32) - 1 } do x[k] = 1 end
print(count(x))
for _, k in ipairs { math.maxinteger, math.mininteger, 0, -1, 1 << 31, 1 << 32, (1 << 32) - 1 } do
  assert(x[k] == 1)
  x[k] = nil
end
print(next(x))

-- A metatable may have a say, or not.
local log = {}
local asked = setmetatable({}, { __newindex = function(_, k, v) log[#log + 1] = k .. "=" .. tostring(v) end })
local plain = setmetatable({}, {})
for i = 1, 3 do
  asked[i * 1000], plain[i * 1000] = i, i
end
asked[5000] = nil
print(table.concat(log, " "), next(asked), count(plain))

-- What is stored lives as long as the table: collections in between.
local o = {}
for i = 1, 2000 do
  o[i * 1000] = { i }
  o[(i - 20) * 1000] = nil
  if i % 100 == 0 then collectgarbage("step") end
end
collectgarbage()
local sum = 0
for k, v in pairs(o) do assert(k == v[1] * 1000); sum = sum + v[1] end
print(sum)
