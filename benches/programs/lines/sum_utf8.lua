-- One million lines of 60 characters, one in ten of them beyond ASCII, utf8.len of each.
-- bench: group=lines size=1000000 quick=80000 luajit=no
local n = tonumber(arg and arg[1]) or 1000000

local name = os.tmpname()
local file = assert(io.open(name, "w"))
local block = {}
for i = 1, 1000 do
  block[i] = (string.rep(string.char(97 + i % 26), 9) .. (i % 2 == 0 and "ß" or "€")):rep(6)
end
block = table.concat(block, "\n") .. "\n"
for _ = 1, n / 1000 do file:write(block) end
file:close()

local sum, len = 0, utf8.len
for line in io.lines(name) do sum = sum + len(line) end
os.remove(name)
assert(sum == n // 1000 * 60000)
print(string.format("sum_utf8 %d", sum))
