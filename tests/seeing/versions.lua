-- Which call path allocates most, and how much falls if it is rewritten?
--
--   perilune prof alloc versions.lua            the comparison makes closures for each version that it looks at
--   perilune prof alloc versions.lua flat       the same comparison on bytes in place
--
-- Chooses for many requests the newest version of a package that is in a range. What is compared are Debian's version
-- numbers: runs of digits and runs of others, in turns.

local byte, find, format, match, sub = string.byte, string.find, string.format, string.match, string.sub

local closures = {}

-- A reader of a version's pieces: each call gives the next one, text and number in turns. It remembers where it is, so each
-- comparison makes two of them, and each piece is a string.
local function pieces(v)
  local at, digits = 1, true
  return function()
    if at > #v then return nil end
    digits = not digits
    local piece = match(v, digits and "^%d*" or "^%D*", at)
    at = at + #piece
    return digits and (tonumber(piece) or 0) or piece
  end
end

function closures.compare(a, b)
  local next_a, next_b = pieces(a), pieces(b)
  while true do
    local x, y = next_a(), next_b()
    if x ~= y then
      if x == nil then return -1 elseif y == nil then return 1 end
      return x < y and -1 or 1
    end
    if x == nil then return 0 end
  end
end

local flat = {}

local ZERO <const>, NINE <const> = byte "0", byte "9"

local function is_digit(c) return c ~= nil and c >= ZERO and c <= NINE end

-- The same order without making anything: two places that move.
function flat.compare(a, b)
  local i, j = 1, 1
  while true do
    local x, y = byte(a, i), byte(b, j)
    if x == nil and y == nil then return 0 end
    if is_digit(x) and is_digit(y) then
      local n, m = 0, 0
      while is_digit(x) do
        n, i = n * 10 + x - ZERO, i + 1
        x = byte(a, i)
      end
      while is_digit(y) do
        m, j = m * 10 + y - ZERO, j + 1
        y = byte(b, j)
      end
      if n ~= m then return n < m and -1 or 1 end
    else
      if x ~= y then
        if x == nil then return -1 elseif y == nil then return 1 end
        -- Where one has digits already, its text is the shorter one.
        if is_digit(x) then return -1 elseif is_digit(y) then return 1 end
        return x < y and -1 or 1
      end
      i, j = i + 1, j + 1
    end
  end
end

local compare = (arg[1] == "flat" and flat or closures).compare

local function versions(package)
  local list = {}
  for n = 1, 24 do list[n] = format("%d.%d.%d-%d", 1 + package % 3, n // 5, n % 5, 1 + n % 2) end
  return list
end

-- What a solver keeps of each candidate until it has decided.
local function candidate(package, v, rank)
  return {
    package = package, version = v, rank = rank, open = true, depth = 0,
    reasons = { "requested", rank, n = 2 }, watchers = { package, rank, rank }, undo = { { v, rank, rank, rank } },
  }
end

local function choose(package, list, low, high)
  local found, newest = {}, nil
  for rank = 1, #list do
    local v = list[rank]
    if compare(v, low) >= 0 and compare(v, high) <= 0 then
      local c = candidate(package, v, rank)
      found[#found + 1] = c
      if not newest or compare(v, newest.version) > 0 then newest = c end
    end
  end
  return newest, found
end

local sum = 0
for request = 1, tonumber(arg[2]) or 2500 do
  local package = request % 40
  local list = versions(package)
  local newest, found = choose(package, list, list[1], list[18 + request % 7])
  sum = sum + newest.rank * #found
end
print(sum)
