-- An addition through __add that returns one of its operands.
-- bench: group=micro size=10000000 quick=1000000
local n = tonumber(arg and arg[1]) or 10000000
local mt = {}
mt.__add = function(a) return a end
local o = setmetatable({}, mt)
local x
local t0 = os.clock()
for i = 1, n do  end
local t1 = os.clock()
for i = 1, n do
  x = o + o
end
local t2 = os.clock()
print(string.format("ns=%.2f", ((t2 - t1) - (t1 - t0)) / n * 1e9))
