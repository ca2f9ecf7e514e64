-- The first way, by where the first two stand, to place n queens so that none attacks another, with so many that the first ones have none.
-- bench: group=cores size=22 quick=10
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 22

local function place(row, columns, left, right)
  if row > n then return true end
  for c = 1, n do
    if not columns[c] and not left[row + c] and not right[row - c + n] then
      columns[c], left[row + c], right[row - c + n] = row, true, true
      if place(row + 1, columns, left, right) then return true end
      columns[c], left[row + c], right[row - c + n] = nil, nil, nil
    end
  end
  return false
end

-- A first row and a second one as a number; the columns of the rest, if there is a way.
local function try(k)
  local first, second = math.floor((k - 1) / n) + 1, (k - 1) % n + 1
  if math.abs(first - second) < 2 then return false end
  local columns, left, right = {}, {}, {}
  columns[first], left[1 + first], right[1 - first + n] = 1, true, true
  columns[second], left[2 + second], right[2 - second + n] = 2, true, true
  if not place(3, columns, left, right) then return false end
  local rows = {}
  for c = 1, n do rows[columns[c]] = c end
  return table.concat(rows, " ")
end

local at, way
if pool then
  at, way = pool:parallel_find(1, n * n, try, { chunk = 1 })
else
  for k = 1, n * n do
    way = try(k)
    if way then
      at = k
      break
    end
  end
end
local result = at .. ": " .. way
-- What the reference implementation prints.
local known = {
  ["10"] = "3: 1 3 6 8 10 5 9 2 4 7",
  ["22"] = "3: 1 3 5 2 4 10 14 17 20 13 19 22 18 8 21 12 9 6 16 7 11 15",
}
local expected = known[arg and arg[1] or "22"]
assert(not expected or result == expected, result)
print(result)
