-- Three levels of inheritance: methods found in the class, its parent and its grandparent, and calls of the
-- parent's version of an overridden method.
-- bench: group=objects size=3000000 quick=180000
local n = tonumber(arg and arg[1]) or 3000000

local function class(parent)
  local c = {}
  c.__index = c
  return setmetatable(c, parent)
end

local Account = class(nil)
function Account.init(self, owner) self.owner = owner; self.balance = 0; self.moves = 0 end
function Account:deposit(x) self.balance = self.balance + x; self:note() end
function Account:note() self.moves = self.moves + 1 end
function Account:fee() return 0 end

local Limited = class(Account)
function Limited.init(self, owner, limit) Account.init(self, owner); self.limit = limit; self.refused = 0 end
function Limited:withdraw(x)
  local sum = x + self:fee()
  if self.balance - sum < -self.limit then
    self.refused = self.refused + 1
    return false
  end
  self.balance = self.balance - sum
  self:note()
  return true
end
function Limited:fee() return 1 end

local Business = class(Limited)
function Business.init(self, owner) Limited.init(self, owner, 500); self.taxed = 0 end
function Business:deposit(x)
  local tax = x % 5
  self.taxed = self.taxed + tax
  Account.deposit(self, x - tax)
end
function Business:fee() return Limited.fee(self) + 1 end

local function new(c, ...) local o = setmetatable({}, c); c.init(o, ...); return o end
local accounts = { new(Limited, "ann", 100), new(Business, "bob"), new(Limited, "cyd", 0), new(Business, "dan") }
local deposited, paid = 0, 0
for i = 1, n do
  local a = accounts[i % 4 + 1]
  if i % 3 ~= 0 then
    a:deposit(i % 50)
    deposited = deposited + i % 50
  else
    local x = i % 97
    if a:withdraw(x) then paid = paid + x + a:fee() end
  end
end
local left, moves, taxed, refused = 0, 0, 0, 0
for _, a in ipairs(accounts) do
  left = left + a.balance
  moves = moves + a.moves
  taxed = taxed + (a.taxed or 0)
  refused = refused + a.refused
end
assert(left == deposited - taxed - paid)
assert(moves == n - refused)
print(string.format("inherit3 %d %d %d", left, taxed, refused))
