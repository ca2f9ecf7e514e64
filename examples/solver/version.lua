-- Debian version numbers: their order, and the relations that a dependency may ask for.
--
-- A version is `[epoch:]upstream[-revision]`. Two versions are compared part by part; each part alternates between
-- runs of other characters and runs of digits. Digits compare as numbers; other characters by a table in which `~`
-- comes before everything, even the end, then the end, then letters, then the rest (Debian policy, 5.6.12).
--
-- A solver compares versions far more often than it decides anything, so this works on bytes in place: a comparison
-- makes no string and no table.

local version = {}

local byte, find = string.byte, string.find

-- The rank of each byte outside a run of digits. A digit, like the end, closes such a run: both rank 0.
local rank = {}
for b = 0, 255 do
  local char = string.char(b)
  if char == "~" then rank[b] = -1
  elseif char:find("%d") then rank[b] = 0
  elseif char:find("%a") then rank[b] = b
  else rank[b] = b + 256 end
end

local ZERO, NINE = byte("0"), byte("9")

-- Compares a[i..a_end] with b[j..b_end]: negative, 0 or positive.
local function compare_part(a, i, a_end, b, j, b_end)
  while i <= a_end or j <= b_end do
    -- The part up to the next digits.
    while true do
      local x = i <= a_end and byte(a, i) or ZERO
      local y = j <= b_end and byte(b, j) or ZERO
      local x_rank, y_rank = rank[x], rank[y]
      if x_rank ~= y_rank then return x_rank - y_rank end
      if x_rank == 0 then break end
      i, j = i + 1, j + 1
    end
    -- The digits: after leading zeros the longer run is the greater number, else the first difference decides.
    while i <= a_end and byte(a, i) == ZERO do i = i + 1 end
    while j <= b_end and byte(b, j) == ZERO do j = j + 1 end
    local first = 0
    while true do
      local x = i <= a_end and byte(a, i) or 0
      local y = j <= b_end and byte(b, j) or 0
      local x_digit, y_digit = x >= ZERO and x <= NINE, y >= ZERO and y <= NINE
      if not (x_digit and y_digit) then
        if x_digit then return 1 end
        if y_digit then return -1 end
        break
      end
      if first == 0 then first = x - y end
      i, j = i + 1, j + 1
    end
    if first ~= 0 then return first end
  end
  return 0
end

-- Where the parts of a version are: the last byte of the epoch (0: none) and of the upstream version.
local function parts(v)
  local epoch = find(v, ":", 1, true)
  local dash = find(v, "%-[^-]*$", epoch or 1)
  return (epoch or 1) - 1, (dash or #v + 1) - 1
end

-- Negative if a is older than b, 0 if they are equal (which does not say that they are spelled alike), else positive.
function version.compare(a, b)
  if a == b then return 0 end
  local a_epoch, a_upstream = parts(a)
  local b_epoch, b_upstream = parts(b)
  local a_start, b_start = 1, 1
  if a_epoch > 0 or b_epoch > 0 then
    local order = compare_part(a, 1, a_epoch, b, 1, b_epoch)
    if order ~= 0 then return order end
    if a_epoch > 0 then a_start = a_epoch + 2 end
    if b_epoch > 0 then b_start = b_epoch + 2 end
  end
  local order = compare_part(a, a_start, a_upstream, b, b_start, b_upstream)
  if order ~= 0 then return order end
  return compare_part(a, a_upstream + 2, #a, b, b_upstream + 2, #b)
end

-- The relations of the policy, and the two outdated spellings that it still allows.
local relations = {
  ["<<"] = function(order) return order < 0 end,
  ["<="] = function(order) return order <= 0 end,
  ["="] = function(order) return order == 0 end,
  [">="] = function(order) return order >= 0 end,
  [">>"] = function(order) return order > 0 end,
}
relations["<"], relations[">"] = relations["<="], relations[">="]

-- Whether `v` stands in the relation `op` to `bound`. An `op` of nil asks for nothing.
function version.satisfies(v, op, bound)
  return op == nil or relations[op](version.compare(v, bound))
end

-- Whether `op` is a relation.
function version.is_relation(op) return relations[op] ~= nil end

return version
