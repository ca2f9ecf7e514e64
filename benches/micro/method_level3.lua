-- A method call found in the third class up.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local A = {}
A.__index = A
function A:get() return self.v end
local B = setmetatable({}, A)
B.__index = B
local C = setmetatable({}, B)
C.__index = C
local o = setmetatable({ v = 1 }, C)
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  o:get()
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
