-- Errors raised and caught: strings with positions, tables, rethrown, from depth, run-time errors with their text.
-- bench: group=errors size=130000 quick=9000
local n = tonumber(arg and arg[1]) or 130000

local function fail_text(i) error("bad " .. i % 10) end
local failure = setmetatable({}, { __tostring = function() return "failure" end })
local function fail_table() error(failure) end
local function deep(k) if k == 0 then error("deep", 0) end return 1 + deep(k - 1) end
local function nil_field(t) return t.x.y end
local function rethrow(i)
  local ok, e = pcall(fail_text, i)
  if not ok then error(e, 0) end
end

local length, tables = 0, 0
for i = 1, n do
  local ok, e = pcall(fail_text, i)
  assert(not ok and e:find("bad %d$"))
  length = length + #e:match("[^:]*$")
  ok, e = pcall(fail_table)
  if not ok and e == failure then tables = tables + 1 end
  ok, e = pcall(deep, 10)
  assert(not ok and e == "deep")
  ok, e = pcall(nil_field, {})
  assert(not ok and e:find("attempt to index", 1, true) and e:find("'x'", 1, true))
  ok, e = pcall(rethrow, i)
  assert(not ok and e:sub(-5) == "bad " .. i % 10)
end
assert(tables == n)
print(string.format("raise %d %d", length, tables))
