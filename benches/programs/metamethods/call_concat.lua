-- __call, __concat and __tostring: callable objects, and a rope that is built by `..` and flattened at the end.
-- bench: group=metamethods size=2000000 quick=120000
local n = tonumber(arg and arg[1]) or 2000000

local Counter = setmetatable({}, { __call = function(class, start) return setmetatable({ n = start }, class) end })
Counter.__index = Counter
Counter.__call = function(self, k) self.n = self.n + k; return self.n end

local Rope = {}
Rope.__index = Rope
local function rope(a, b) return setmetatable({ a, b }, Rope) end
Rope.__concat = rope
local function flatten(r, out)
  if type(r) == "string" then out[#out + 1] = r; return out end
  flatten(r[1], out)
  return flatten(r[2], out)
end
Rope.__tostring = function(r) return table.concat(flatten(r, {})) end

local c, sum = Counter(10), 0
for i = 1, n do sum = sum + c(i % 3) % 7 end
local added = 0
for i = 1, n do added = added + i % 3 end
assert(c.n == 10 + added)

local length = 0
for i = 1, n / 50 do
  local r = rope("<", ">")
  for k = 1, 25 do
    r = r .. "ab"
    if k % 2 == 0 then r = "c" .. r end
  end
  local text = tostring(r)
  assert(#text == 2 + 50 + 12)
  length = length + #text
end
print(string.format("call_concat %d %d", sum, length))
