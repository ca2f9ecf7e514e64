-- Keys that are made of parts, `self["scan_" .. tag]`: few of them are keys of any table, and what tables lack is
-- looked for along `__index`.
local Base = {}
Base.__index = Base
function Base:scan_call() return "call" end
local Scanner = setmetatable({}, Base)
Scanner.__index = Scanner
function Scanner:scan_name() return "name" end
function Scanner:scan(tag)
  local scan = self["scan_" .. tag]
  if scan then return scan(self) end
  return nil
end

local tags = { "name", "call", "number", "string", "nothing", "name" }
local scanner = setmetatable({ count = 0 }, Scanner)
local found, lacking = 0, 0
for i = 1, 6000 do
  local what = scanner:scan(tags[i % #tags + 1])
  if what then found = found + #what else lacking = lacking + 1 end
end
print(found, lacking)

-- Scopes: each has the names of those around it.
local function scope(outer) return setmetatable({}, { __index = outer }) end
local all = scope(scope(scope({ ["global_1"] = 1 })))
all["local_2"] = 2
local function value(s, n) return s["local_" .. n] or s["global_" .. n] or 0 end
local sum = 0
for i = 1, 4000 do sum = sum + value(all, i % 5) end
print(sum)

-- A key that nobody has becomes one, goes, and comes back elsewhere.
local trace = {}
local function look(s, n) return s["late_" .. n] end
for i = 1, 3000 do
  if i == 1000 then Base["late_" .. 7] = "of the base" end
  if i == 1500 then scanner["late_7"] = "its own" end
  if i == 2000 then scanner["late_7"] = nil end
  if i == 2500 then Base["late_7"] = nil end
  local now = look(scanner, i % 10) or false
  if i % 10 == 7 and now ~= trace[#trace] then trace[#trace + 1] = now end
end
for n, what in ipairs(trace) do io.write(n, " ", tostring(what), "\n") end

-- Where `__index` is a function, it gets the key that was made.
local asked = {}
local ask = setmetatable({}, { __index = setmetatable({}, { __index = function(_, key)
  asked[key] = (asked[key] or 0) + 1
  return nil
end }) })
for i = 1, 2000 do assert(ask["part_" .. i % 4] == nil) end
print(asked.part_0, asked.part_1, asked.part_2, asked.part_3)

-- Long keys, that are not interned either.
local long = string.rep("x", 100)
local deep = scope(scope({ [long .. "1"] = "one" }))
local ones, others = 0, 0
for i = 1, 2000 do
  if deep[long .. i % 3] then ones = ones + 1 else others = others + 1 end
end
print(ones, others)
