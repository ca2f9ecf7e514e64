-- Input checked with assert, error tables with fields, xpcall with a handler that adds context.
-- bench: group=errors size=1200000 quick=80000
local n = tonumber(arg and arg[1]) or 1200000

local Problem = {}
Problem.__index = Problem
local function problem(code, field) return setmetatable({ code = code, field = field }, Problem) end
local function check(order)
  if type(order.id) ~= "number" then error(problem("type", "id")) end
  if order.amount < 0 then error(problem("range", "amount")) end
  assert(order.name ~= "", "name is empty")
  return order.amount * 2
end
local function handler(e)
  if type(e) == "table" then return { code = e.code, at = "check", field = e.field } end
  return { code = "text", at = "check", field = tostring(e) }
end

local accepted, codes = 0, { type = 0, range = 0, text = 0 }
for i = 1, n do
  local order = { id = i % 11 == 0 and "x" or i, amount = i % 7 - 1, name = i % 13 == 0 and "" or "n" }
  local ok, r = xpcall(check, handler, order)
  if ok then
    accepted = accepted + 1
    assert(r == order.amount * 2)
  else
    assert(r.at == "check")
    codes[r.code] = codes[r.code] + 1
  end
end
assert(accepted + codes.type + codes.range + codes.text == n)
local by_type = (n - n % 11) / 11
assert(codes.type == by_type)
print(string.format("validate %d %d %d %d", accepted, codes.type, codes.range, codes.text))
