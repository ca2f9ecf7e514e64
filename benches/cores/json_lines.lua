-- Lines of JSON, read by a reader in Lua: what each customer has ordered.
-- bench: group=cores size=60000 quick=500
local is_ours, pl = pcall(require, "perilune")
local workers = tonumber(os.getenv "WORKERS" or "")
local pool = is_ours and workers ~= 0 and pl.pool.new { workers = workers }
local n = tonumber(arg and arg[1]) or 60000

local Reader = {}
Reader.__index = Reader

function Reader.new(text) return setmetatable({ text = text, at = 1 }, Reader) end

function Reader:value()
  local text = self.text
  local c = text:match("^%s*(.)", self.at)
  self.at = text:find(c, self.at, true)
  if c == "{" then return self:object() end
  if c == "[" then return self:array() end
  if c == '"' then
    local s, last = text:match('^"([^"]*)"()', self.at)
    self.at = last
    return s
  end
  local word, last = text:match("^([%w%.%-]+)()", self.at)
  self.at = last
  if word == "true" then return true end
  if word == "false" then return false end
  return tonumber(word)
end

function Reader:object()
  local object = {}
  self.at = self.at + 1
  repeat
    local key = self:value()
    self.at = self.text:match("^%s*:()", self.at)
    object[key] = self:value()
    local c, last = self.text:match("^%s*([,}])()", self.at)
    self.at = last
  until c == "}"
  return object
end

function Reader:array()
  local array = {}
  self.at = self.at + 1
  repeat
    array[#array + 1] = self:value()
    local c, last = self.text:match("^%s*([,%]])()", self.at)
    self.at = last
  until c == "]"
  return array
end

local function make(i)
  return string.format('{"id": %d, "customer": "c%d", "paid": %s, "items": [{"sku": "a%d", "price": %d}, {"sku": "b", "price": %d}]}',
    i, i % 50, i % 3 == 0 and "true" or "false", i, i % 17, i % 23)
end

local blocks = {}
for b = 1, math.ceil(n / 500) do
  local lines = {}
  for i = 1, 500 do lines[i] = make((b - 1) * 500 + i) end
  blocks[b] = table.concat(lines, "\n")
end

local function orders(block)
  local sums = {}
  for line in block:gmatch("[^\n]+") do
    local order = Reader.new(line):value()
    if order.paid then
      for _, item in ipairs(order.items) do sums[order.customer] = (sums[order.customer] or 0) + item.price end
    end
  end
  return sums
end

local results = {}
if pool then
  results = pool:map(blocks, orders)
else
  for i, block in ipairs(blocks) do results[i] = orders(block) end
end
local all, customers = 0, {}
for _, sums in ipairs(results) do
  for customer, sum in pairs(sums) do
    customers[customer] = (customers[customer] or 0) + sum
    all = all + sum
  end
end
local result = string.format("%d in all, %d from c7", all, customers.c7)
-- What the reference implementation prints.
local known = { ["500"] = "3143 in all, 32 from c7", ["60000"] = "379985 in all, 7565 from c7" }
local expected = known[arg and arg[1] or "60000"]
assert(not expected or result == expected, result)
print(result)
