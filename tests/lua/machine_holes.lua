-- Stores that fill holes of arrays, and make some: sieves, what has been seen, what backtracking takes back.
-- Lengths and traversals tell whether what machine code counts is what there is.

local function sieve(n)
  local prime = {}
  for i = 2, n do prime[i] = true end
  for i = 2, n do
    if prime[i] then
      for j = i * i, n, i do prime[j] = false end
    end
  end
  local count = 0
  for i = 2, n do
    if prime[i] then count = count + 1 end
  end
  return count, #prime
end

-- Small and large arrays, some of which become full.
local seen = {}
for n = 50, 350 do
  local count, border = sieve(n)
  seen[#seen + 1] = count .. ":" .. border
end
print(table.concat(seen, " "))

-- A large array loses a third of its elements and gets them back: it is full again each time.
local names = {}
for i = 1, 100 do names[i] = "n" .. i end
for round = 1, 120 do
  for i = 1, 100, 3 do names[i] = nil end
  local left = 0
  for _ in pairs(names) do left = left + 1 end
  assert(left == 66)
  for i = 1, 100, 3 do names[i] = "r" .. round end
  assert(#names == 100)
end
print(#names, names[1], names[2], names[100])

-- A small one, of which now this and now that is missing.
local borders = {}
local few = { 1, "a", 3, nil, 5, 6 }
for round = 1, 3000 do
  local at = round % 6 + 1
  few[at] = nil
  few[(at + 2) % 6 + 1] = round
  if round % 100 == 0 then borders[#borders + 1] = #few end
end
print(table.concat(borders, " "))

-- One store for all tables that follow.
local function fill(t, from, to, step, value)
  for i = from, to, step do t[i] = value end
end
local function take(t, from, to, step)
  for i = from, to, step do t[i] = nil end
end

-- Emptied from its end, asked for its first entry, and filled again.
local rows = {}
for i = 1, 200 do rows[i] = {} end
for round = 1, 60 do
  take(rows, 200, 1, -1)
  assert(next(rows) == nil and #rows == 0)
  fill(rows, 2, 150, 1, { round })
  local first = next(rows)
  assert(first == 2, first)
  fill(rows, 151, 200, 1, { round })
  rows[1] = { round }
  assert(#rows == 200 and rows[200][1] == round)
end
-- Emptied from its beginning: traversals remember where they begin, until something comes there.
for round = 1, 60 do
  take(rows, 1, 180, 1)
  for i = 20, 1, -1 do
    assert(next(rows) == (i == 20 and 181 or i + 1))
    fill(rows, i, i, 1, { i })
    assert(next(rows) == i)
  end
  fill(rows, 21, 180, 1, { round })
  assert(#rows == 200)
end

-- Who has `__newindex` is asked for what is absent, and no more.
local plain = {}
for i = 1, 200 do plain[i] = i .. "" end
local function replace(t, value)
  for i = 1, #t do t[i] = value end
end
for round = 1, 300 do
  take(plain, 1, 199, 3)
  replace(plain, "y")
end
local absent = 0
local minded = {}
for i = 1, 80 do minded[i] = i .. "" end
for i = 1, 80, 2 do minded[i] = nil end
setmetatable(minded, {
  __newindex = function(t, k, v)
    absent = absent + 1
    rawset(t, k, v)
  end,
})
for round = 1, 50 do
  replace(minded, "x")
  take(minded, 1, 80, 2)
end
print(absent)

-- Keys that are floats, or beyond the array, and values that the collector has to be told of.
local mixed = {}
for i = 3, 300 do mixed[i + 0.0] = { i } end
collectgarbage()
for round = 1, 40 do
  for i = 3, 300, 2 do mixed[i + 0.0] = nil end
  for i = 3, 300, 2 do mixed[i] = { round, i } end
  mixed[1000 + round] = round
  if round % 10 == 0 then collectgarbage() end
end
local sum, count = 0, 0
for k, v in pairs(mixed) do
  count = count + 1
  sum = sum + k * (type(v) == "table" and v[#v] or v)
end
print(sum, count)

-- Eight queens, what is taken set to nil again.
local function queens(n)
  local found, columns, rising, falling = 0, {}, {}, {}
  local function place(row)
    if row > n then
      found = found + 1
      return
    end
    for column = 1, n do
      if not (columns[column] or rising[row + column] or falling[row - column + n]) then
        columns[column], rising[row + column], falling[row - column + n] = true, true, true
        place(row + 1)
        columns[column], rising[row + column], falling[row - column + n] = nil, nil, nil
      end
    end
  end
  place(1)
  return found
end
print(queens(6), queens(7))
