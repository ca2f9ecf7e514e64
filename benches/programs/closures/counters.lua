-- Closures made in a loop, two sharing one captured variable, and calls that read and write captured variables.
-- bench: group=closures size=2000000 quick=120000
local n = tonumber(arg and arg[1]) or 2000000

local function account(start)
  local balance, moves = start, 0
  local function deposit(x) balance = balance + x; moves = moves + 1 end
  local function withdraw(x)
    if x > balance then return false end
    balance = balance - x
    moves = moves + 1
    return true
  end
  return deposit, withdraw, function() return balance, moves end
end

local total, moves, refused = 0, 0, 0
for i = 1, n do
  local deposit, withdraw, report = account(i % 100)
  deposit(10)
  deposit(i % 7)
  if not withdraw(i % 60) then refused = refused + 1 end
  local b, m = report()
  total = total + b
  moves = moves + m
end
assert(moves == 3 * n - refused)
local result = string.format("counters %d %d %d", total, moves, refused)
local known = { [120000] = "counters 4988003 336000 24000", [2000000] = "counters 83133007 5600019 399981" }
assert(not known[n] or result == known[n], result)
print(result)
