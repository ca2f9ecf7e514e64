-- 64-bit integers that wrap: FNV-1a, a xorshift generator and a multiply-fold hash, with bit operators.
-- bench: group=numeric size=15000000 quick=1000000 luajit=no
local n = tonumber(arg and arg[1]) or 15000000

local fnv = 0xcbf29ce484222325
local state = 88172645463325252
local mixed = 0
for i = 1, n do
  fnv = (fnv ~ (i & 0xff)) * 0x100000001b3
  state = state ~ (state << 13)
  state = state ~ (state >> 7)
  state = state ~ (state << 17)
  local h = (i * 0x9e3779b97f4a7c15) ~ state
  h = (h ~ (h >> 32)) * 0xd6e8feb86659fd93
  mixed = mixed + (h ~ (h >> 29))
end
-- The xorshift step is a bijection: undo the last one and redo it.
local function undo_right(x, k) local r = x; for _ = 1, 64 // k do r = x ~ (r >> k) end return r end
local function undo_left(x, k) local r = x; for _ = 1, 64 // k do r = x ~ (r << k) end return r end
local back = undo_left(undo_right(undo_left(state, 17), 7), 13)
local again = back ~ (back << 13)
again = again ~ (again >> 7)
again = again ~ (again << 17)
assert(again == state)
local result = string.format("int64_hash %016x %016x %016x", fnv, state, mixed)
local known = { [1000000] = "int64_hash 5b9f7c4bd89a54e5 652cf958c2958ad6 f455972c538610ea", [15000000] = "int64_hash 0b7756bbc4e41b65 de3163c6e8b1e86c 2c7461d71237f51d" }
assert(not known[n] or result == known[n], result)
print(result)
