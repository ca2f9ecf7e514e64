-- One line of 60 characters read with io.lines from a file in the page cache.
-- bench: group=micro size=1000000 quick=100000
local n = tonumber(arg and arg[1]) or 1000000
local name = os.tmpname()
local file = assert(io.open(name, "w"))
local block = {}
for i = 1, 1000 do block[i] = string.rep(string.char(97 + i % 26), 60) end
block = table.concat(block, "\n") .. "\n"
for _ = 1, n / 1000 do file:write(block) end
file:close()
local sum = 0
local t0 = os.clock()
for line in io.lines(name) do sum = sum + #line end
local t1 = os.clock()
os.remove(name)
assert(sum == n * 60)
print(string.format("ns=%.2f", (t1 - t0) / n * 1e9))
