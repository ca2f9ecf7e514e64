-- `...` read through select, and functions that only count or forward their arguments.
-- bench: group=varargs size=1000000 quick=60000
local n = tonumber(arg and arg[1]) or 1000000
local select = select

local function sum(...)
  local s = 0
  for i = 1, select("#", ...) do s = s + (select(i, ...)) end
  return s
end
local function forward(...) return sum(...) end
local function behind(_, ...) return forward(...) end
local function count(...) return select("#", ...) end
local function last(...) return (select(-1, ...)) end

local total, arguments = 0, 0
for i = 1, n do
  local a, b, c = i % 3, i % 5, i % 7
  total = total + sum(a, b, c) + forward(a, b) + behind(a, b, c, 1) + last(a, b, c)
  arguments = arguments + count() + count(a, nil) + count(a, b, c, nil, nil)
end
assert(arguments == 7 * n)
local expect = 0
for i = 1, n do
  local a, b, c = i % 3, i % 5, i % 7
  expect = expect + (a + b + c) + (a + b) + (b + c + 1) + c
end
assert(total == expect)
print(string.format("select_sum %d", total))
